"""``path("api/v1/", include("django_counters.rest.urls"))``"""

from __future__ import annotations

from django.urls import path

from django_counters.adjustments.rest import (
    AdjustView,
    ApproveView,
    RejectView,
    RequestsView,
    RequestView,
)
from django_counters.features import rest_modules
from django_counters.rest.views import (
    DecrementView,
    ExactView,
    IncrementManyView,
    IncrementView,
    ListView,
    ReadManyView,
    ReadView,
)

app_name = "counters"


urlpatterns = [
    path("bulk/read", ReadManyView.as_view(), name="read-many"),
    path("counters", ListView.as_view(), name="list"),
    path("requests", RequestsView.as_view(), name="requests"),
    # Any text: the error of one that is no number is one of the API, too.
    path("requests/<counter_key:number>/approve", ApproveView.as_view(), name="approve"),
    path("requests/<counter_key:number>/reject", RejectView.as_view(), name="reject"),
    path("requests/<counter_key:number>", RequestView.as_view(), name="request"),
    path("bulk/increment", IncrementManyView.as_view(), name="increment-many"),
    path("counters/<counter_key:key>/increment", IncrementView.as_view(), name="increment"),
    path("counters/<counter_key:key>/decrement", DecrementView.as_view(), name="decrement"),
    path("counters/<counter_key:key>/adjust", AdjustView.as_view(), name="adjust"),
    path("counters/<counter_key:key>/exact", ExactView.as_view(), name="exact"),
    *(route for module in rest_modules() for route in module.urlpatterns),
    path("counters/<counter_key:key>", ReadView.as_view(), name="read"),
]
