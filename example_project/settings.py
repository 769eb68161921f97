"""Settings of the example: one database, one cache, loopback only."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import dj_database_url
import django
from django.core.exceptions import ImproperlyConfigured

from django_counters.tasks import counters_beat_schedule
from example_project.bootstrap.folders import PREFIX
from example_project.bootstrap.services import DATA
from example_project.csp import SITE
from example_project.run import BROKER, KAFKA_WAY, STREAM_WAYS, TOPIC, WAY

BASE_DIR = Path(__file__).resolve().parent
DATABASE_URL = os.environ.get("DATABASE_URL", "")
REDIS_URL = os.environ.get("REDIS_URL", "")
if not DATABASE_URL or not REDIS_URL:
    raise ImproperlyConfigured(
        "start with python3 -m example_project, or export DATABASE_URL and REDIS_URL"
    )


def _options(url: str) -> dict[str, object]:
    if not url.startswith("sqlite"):
        return {}
    # A writer asks for the lock when its transaction begins, and then waits instead of failing.
    return {"timeout": 30, "transaction_mode": "IMMEDIATE"}


def _broker(url: str) -> str:
    """The same Redis as Celery writes it; what is there of Celery has a prefix."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    (database,) = parse_qs(parts.query).get("db", ["0"])
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={database}"


def _is_our_own(url: str) -> bool:
    """Whether the server was started for this run alone: its socket is in a private folder."""
    hosts = parse_qs(urlsplit(url).query).get("host", [])
    return any(Path(host).name.startswith(f"{PREFIX}-") for host in hosts)


def prefix_in_redis(identity: str) -> str:
    """What the keys of one database begin with."""
    return "djc-example-" + hashlib.sha256(identity.encode()).hexdigest()[:8]


def _identity() -> str:
    """What names the database in every run: its URL, or where the data are that we keep."""
    url, _, data = os.environ.get(DATA, "").partition(" ")
    return data if data and url == DATABASE_URL else DATABASE_URL


# Signs nothing that outlives a demonstration on the loopback interface.
SECRET_KEY = "example-project-demo-only-" + hashlib.sha256(DATABASE_URL.encode()).hexdigest()
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_counters",
    "django_counters.contrib.buffers",
    "django_counters.contrib.holds",
    "django_counters.contrib.likes",
    "django_counters.contrib.limits",
    "django_counters.contrib.streams",
    "django_counters.contrib.regions",
    "django_counters.contrib.series",
    "django_counters.contrib.top",
    "django_counters.contrib.uniques",
    "example_project.blog",
    "example_project.shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware"
    if django.VERSION >= (6, 0)
    else "example_project.csp.policy",
]
SECURE_CSP = SITE
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"

# Every thread of the server keeps its connection, and there is a fixed number of threads.
_DATABASE = dj_database_url.parse(DATABASE_URL, conn_max_age=None)
DATABASES = {
    "default": {**_DATABASE, "OPTIONS": {**_DATABASE.get("OPTIONS", {}), **_options(DATABASE_URL)}}
}
OUR_OWN_SERVER = _is_our_own(DATABASE_URL)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Two databases that share a Redis must not get each other's numbers.
PREFIX_IN_REDIS = prefix_in_redis(_identity())
CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": PREFIX_IN_REDIS,
    }
}

# By more than this nobody adjusts a counter of the example alone.
APPROVE_ABOVE = 100
# Who may do what over HTTP; what can be counted there is in the urls.
_READABLE: dict[str, object] = {"read": "anyone", "history": "anyone"}
# Everything of the example shares one machine, which may be busy: here Redis may take a second.
_PATIENT: dict[str, object] = {"STRATEGY": "cached", "OPTIONS": {"timeout": 1}}
# With tokens a replay counts in the database: a block of lines and its token are one transaction.
_WAY = os.environ.get(WAY)
_HOW: dict[str, object] = {"STRATEGY": "exact"} if _WAY else _PATIENT
# Each line counts on the day that it is of; but what comes through a stream, when it was published.
_REPLAYED: dict[str, object] = _HOW if _WAY in STREAM_WAYS else {**_HOW, "PER": ["day"]}
_DECLARED: dict[str, dict[str, object]] = {
    "default": {"STRATEGY": "exact"},
    # Once an hour what has landed is written down: the admin draws a chart of it.
    "visits": {
        **_PATIENT,
        "HISTORY": "1h",
        "UNIQUE": ["day"],
        "KEEP": {"day": 90},
        "API": _READABLE,
    },
    "downloads": {
        "STRATEGY": "sharded",
        "HISTORY": "1h",
        "API": {**_READABLE, "adjust": "permission", "approve": "permission"},
    },
    "orders": {"STRATEGY": "ledger", "OPTIONS": {"retention_days": 30}, "API": _READABLE},
    "page": _REPLAYED,
    "status": _REPLAYED,
    "hour": _REPLAYED,
}
COUNTERS = {
    name: {**options, "APPROVE_ABOVE": APPROVE_ABOVE} for name, options in _DECLARED.items()
}

# What replay --stream publishes. Small pages, so that a consumer can be killed in the middle.
COUNTERS_STREAMS: dict[str, dict[str, object]] = {
    "replay": {
        "BACKEND": "redis",
        "LOCATION": REDIS_URL,
        "STREAM": [f"{PREFIX_IN_REDIS}:replay:{number}" for number in range(4)],
        "DECODE": "example_project.streamed.changes",
        "PAGE": 200,
    }
}
if _WAY == KAFKA_WAY:
    COUNTERS_STREAMS["replay-kafka"] = {
        "BACKEND": "kafka",
        "LOCATION": os.environ[BROKER],
        "TOPIC": TOPIC,
        "DECODE": "example_project.streamed.topic_changes",
        "PAGE": 200,
        # Who is killed is out of the group after a second.
        "OPTIONS": {
            "session.timeout.ms": 1000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 20,
        },
    }

# A task flushes what is counted in Redis into the database. Here it is done more often than a site
# needs it: the defaults are 10 s and a minute.
CELERY_BEAT_SCHEDULE = counters_beat_schedule(every=1)
COUNTERS_UPKEEP = {"flush": 2, "rollup": 1, "expire": 2}
CELERY_BROKER_URL = _broker(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": f"{PREFIX_IN_REDIS}:celery:"}
CELERY_TASK_IGNORE_RESULT = True

REST_FRAMEWORK: dict[str, object] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework_simplejwt.authentication.JWTAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS: dict[str, object] = {
    "TITLE": "A shop and a blog that count exactly",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
}

USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "unexpected": {
            "()": "django.utils.log.CallbackFilter",
            # What the API answers while Redis is away is part of the report, too.
            "callback": lambda record: getattr(record, "status_code", 0) not in (503, 504),
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["unexpected"]}},
    "loggers": {
        "django": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
        # Incidents are part of the report at the end.
        "django_counters": {"handlers": ["stderr"], "level": "CRITICAL", "propagate": False},
    },
}
