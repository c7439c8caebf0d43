"""Tokens of AWS MSK's access control: signed with credentials of AWS, for any client of Kafka.

The mechanism AWS_MSK_IAM is Java's own; brokers take the same signature as a token of OAUTHBEARER,
which both clients speak.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from streamlet.errors import ConfigError

#: Gives a token, and when it expires, in seconds since the epoch.
TokenFunction = Callable[[str], tuple[str, float]]

_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}[a-z0-9-]*-\d+)\.")
_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def region_of(bootstrap_servers: str, environ: Mapping[str, str]) -> str:
    """The region of a cluster: it is in the addresses of its brokers, else in the environment.

    Raises:
        ConfigError: it is in neither.
    """
    if found := _REGION.search(bootstrap_servers):
        return found[1]
    for name in _VARIABLES:
        if region := environ.get(name):
            return region
    raise ConfigError(
        [
            "sasl.mechanism = AWS_MSK_IAM: the cluster's region is not in bootstrap.servers "
            f"({bootstrap_servers}); set the variable AWS_REGION"
        ]
    )


def msk_tokens(bootstrap_servers: str) -> TokenFunction:
    """A function that signs tokens for a cluster, with the credentials that AWS's tools find.

    Raises:
        ConfigError: the extra ``msk`` is not installed, or the cluster's region is not known.
    """
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError as error:
        raise ConfigError(
            [
                "sasl.mechanism = AWS_MSK_IAM needs a package; run: pip install 'streamlet[msk]' "
                f"({error})"
            ]
        ) from error
    region = region_of(bootstrap_servers, os.environ)

    def sign(_: str) -> tuple[str, float]:
        token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return token, expires_ms / 1000

    return sign
