"""Target: the provider, the secrets and the config that a name on the command line stands for.

Guarantees  a secret is never an argument, nor ever shown: it comes from the environment, or from the app.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from redrive.app import load_app
from redrive.errors import ConfigError
from redrive.inbox.inbox import Inbox
from redrive.inbox.providers import PROVIDERS, Provider, provider
from redrive.inbox.secrets import Given, Secret, resolve
from redrive.inbox.signatures import Verifier
from redrive.settings import load_settings

ProviderArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A provider, such as stripe; or an inbox of the app.", show_default=False
    ),
]
SecretEnvOption = Annotated[
    list[str] | None,
    typer.Option(
        "--secret-env",
        metavar="VARIABLE",
        help="The environment variable with the secret. May be repeated, the newest first.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Target:
    """`name` is the source in a URL. `secret_names` says what each secret is called, never what it is."""

    name: str
    provider: Provider
    secrets: Sequence[str] = field(repr=False)
    secret_names: Sequence[str]
    config: Mapping[str, Any]
    url: str | None = None

    @classmethod
    def of(
        cls,
        name: str,
        *,
        app: str | None,
        secret_env: Sequence[str] | None,
        config: Mapping[str, Any] | None = None,
        tolerance: float | None = None,
    ) -> Target:
        """What `name` stands for: an inbox of the app that --app or the settings name, else a provider.

        Raises `ConfigError` for a name nobody knows, and a secret that is absent or cannot be right.
        """
        inbox = _inbox(name, app)
        provider_name = name if inbox is None else inbox.provider.name
        told = {**(inbox.config if inbox else {}), **(config or {})}
        if tolerance is not None:
            told["tolerance"] = tolerance
        given: Given = None
        called: list[str] | None = [f"{name.upper().replace('-', '_')}_WEBHOOK_SECRET"]
        if secret_env:
            given, called = [Secret(env=each) for each in secret_env], list(secret_env)
        elif inbox is not None and inbox.secret is not None:
            given, called = inbox.secret, None
        # Checks the config too, and before the secrets: a wrong one would blame them.
        made = provider(provider_name, told)
        secrets = resolve(name, provider_name, given, told).at(time.time())
        if called is None:
            called = [f"number {place} of the inbox's secrets" for place in range(1, len(secrets) + 1)]
        return cls(name, made, secrets, called, told, inbox.url if inbox else None)

    def verifier(self) -> Verifier:
        """What its receiver verifies with."""
        return Verifier(self.provider.name, self.secrets, self.config, settings=self.secret_names)


def _inbox(name: str, app: str | None) -> Inbox | None:
    """The app's inbox of that name; None where it has none, or no app is named, but a provider is."""
    spec = app or load_settings().app
    inboxes: Mapping[str, Inbox] = {} if spec is None else load_app(spec).inboxes
    if (found := inboxes.get(name)) is not None:
        return found
    if name in PROVIDERS:
        return None
    known = f"the inboxes of app {spec} are: {', '.join(sorted(inboxes)) or 'none'}; " if spec else ""
    raise ConfigError(
        f"{name!r} is no provider, and no inbox of an app named by --app or the settings; {known}"
        f"the providers are: {', '.join(sorted(PROVIDERS))}"
    )
