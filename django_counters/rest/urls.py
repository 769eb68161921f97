"""``path("api/v1/", include("django_counters.rest.urls"))``"""

from __future__ import annotations

from django.urls import path

from django_counters.adjustments import rest as adjustments
from django_counters.features import rest_modules
from django_counters.rest import views

app_name = "counters"


urlpatterns = [
    path("bulk/read", views.ReadManyView.as_view(), name="read-many"),
    path("counters", views.ListView.as_view(), name="list"),
    path("requests", adjustments.RequestsView.as_view(), name="requests"),
    # Any text: the error of one that is no number is one of the API, too.
    path(
        "requests/<counter_key:number>/approve", adjustments.ApproveView.as_view(), name="approve"
    ),
    path("requests/<counter_key:number>/reject", adjustments.RejectView.as_view(), name="reject"),
    path("requests/<counter_key:number>", adjustments.RequestView.as_view(), name="request"),
    path("bulk/increment", views.IncrementManyView.as_view(), name="increment-many"),
    path("counters/<counter_key:key>/increment", views.IncrementView.as_view(), name="increment"),
    path("counters/<counter_key:key>/decrement", views.DecrementView.as_view(), name="decrement"),
    path("counters/<counter_key:key>/adjust", adjustments.AdjustView.as_view(), name="adjust"),
    path("counters/<counter_key:key>/exact", views.ExactView.as_view(), name="exact"),
    *(route for module in rest_modules() for route in module.urlpatterns),
    path("counters/<counter_key:key>", views.ReadView.as_view(), name="read"),
]
