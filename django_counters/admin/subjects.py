"""The counter of a page of the admin, if the user may see it there."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.auth import get_permission_codename
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import Http404, HttpRequest

from django_counters.admin.readonly import row_url
from django_counters.exceptions import CounterError
from django_counters.models import Counter, SlottedCounter
from django_counters.write.change import Ref
from django_counters.write.records import is_whole, ref_of


class VisibleCounter(NamedTuple):
    """A counter that the user may see.

    Attributes:
        row: the row of a named counter, or the record.
        url: its page in the admin; empty if there is none.
    """

    subject: Ref
    row: models.Model
    url: str


def seen(site: AdminSite, request: HttpRequest, field: str, key: str) -> VisibleCounter:
    """The counter that two texts name, if the user may see it, and it has no decimal places.

    The `ModelAdmin` of the model that ``field`` names decides, by its permission to view and its
    ``get_queryset``. For a model without one, Django's permission to view it is enough.

    Raises:
        Http404: there is no such counter, or the user cannot see it.
        PermissionDenied: the user may not see the counters of the model, or not this one.
    """
    try:
        subject = ref_of(field, key)
    except CounterError as error:
        raise Http404(str(error)) from error
    if not is_whole(subject):
        # The forms and pages here are of integers: 5 would be 0.05.
        raise Http404
    model = apps.get_model(field.rpartition(".")[0]) if field else Counter
    if not (subject.table.value or _is_counted(subject)):
        # A misspelt name would be a new counter.
        raise Http404
    row = _row(site, request, model, subject)
    return VisibleCounter(subject, row, row_url(site, model, row.pk))


def _is_counted(subject: Ref) -> bool:
    """Whether a counter without a column has slots."""
    assert subject.model is not None
    name = subject.owner.rpartition(".")[2]
    slots = SlottedCounter._base_manager.using(subject.using)
    kinds = ContentType.objects.db_manager(subject.using)
    kind = kinds.get_for_model(subject.model)
    return slots.filter(record_type=kind, record_id=subject.text, name=name).exists()


def _row(
    site: AdminSite, request: HttpRequest, model: type[models.Model], subject: Ref
) -> models.Model:
    row: models.Model | None = visible(site, request, model).filter(**_where(subject)).first()
    if row is None:
        raise Http404
    if not _may_view(site, request, model, row):
        raise PermissionDenied
    return row


def visible(
    site: AdminSite, request: HttpRequest, model: type[models.Model]
) -> models.QuerySet[Any]:
    """The rows of a model that the user may see.

    Raises:
        PermissionDenied: the user may see none.
    """
    if not _may_view(site, request, model, None):
        raise PermissionDenied
    if site.is_registered(model):
        return site.get_model_admin(model).get_queryset(request)
    return model._base_manager.all()


def is_gone(field: str, key: str) -> bool:
    """Whether the row or the model of a counter does not exist any more."""
    try:
        subject = ref_of(field, key)
    except CounterError:
        return True
    rows = (subject.model or Counter)._base_manager.filter(**_where(subject))
    return not rows.exists()


def _where(subject: Ref) -> dict[str, Any]:
    # An inherited counter is in the row of the parent, under the key of the parent.
    key_field: Any = subject.model and subject.model._meta.pk
    owner = key_field.name if key_field else "pk"
    return {owner: subject.key}


def _may_view(
    site: AdminSite, request: HttpRequest, model: type[models.Model], row: models.Model | None
) -> bool:
    if site.is_registered(model):
        return bool(site.get_model_admin(model).has_view_permission(request, row))
    code = get_permission_codename("view", model._meta)
    return request.user.has_perm(f"{model._meta.app_label}.{code}")
