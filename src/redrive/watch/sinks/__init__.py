"""Sinks: where alerts go. One module a way to deliver, all behind `redrive.watch.sinks.sink.Sink`."""
