"""``python -m tests.rest.prepare 100``: tables, so many records, and a user; prints its JWT."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import django
from django.core.management import call_command

# Longer than any test.
LIFETIME = timedelta(hours=3)


def main(records: int) -> None:
    """Prepare the database that the settings say."""
    django.setup()
    call_command("migrate", run_syncdb=True, verbosity=0)
    from django.contrib.auth.models import User
    from rest_framework_simplejwt.tokens import AccessToken

    from tests.testapp.models import Ticket

    Ticket.objects.bulk_create(Ticket(pk=number + 1) for number in range(records))
    token = AccessToken.for_user(User.objects.create_user("ann"))
    token.set_exp(lifetime=LIFETIME)
    print(json.dumps({"who": str(token)}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
