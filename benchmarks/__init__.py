"""Benchmarks: what redrive costs beside bare pgmq and a peer, as ratios measured in one run on one machine.

    python -m benchmarks [drain send pickup parked memory producers vacuum] [--json]

docs/performance.md says what each measures. They are no tests: nothing fails because a machine is slow.
"""
