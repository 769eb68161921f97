"""View sets of a project that count."""

from __future__ import annotations

from typing import Any

from django.utils.functional import SimpleLazyObject
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.permissions import AllowAny, BasePermission, IsAuthenticated
from rest_framework.response import Response
from rest_framework.routers import DefaultRouter
from rest_framework.throttling import UserRateThrottle
from rest_framework.viewsets import ModelViewSet

from django_counters.errors import CounterUnavailable
from django_counters.rest.viewsets import DecrementMixin, IncrementMixin
from tests.testapp.models import Account, Article, Member, Note, Post, Product, Story


class Thrice(UserRateThrottle):
    rate = "3/day"


class NotPrivate(BasePermission):
    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return bool(obj.title != "private")


class PostSerializer(serializers.ModelSerializer[Post]):
    class Meta:
        model = Post
        fields = "__all__"


class PostViewSet(IncrementMixin, ModelViewSet[Post]):
    queryset = Post.objects.exclude(title="hidden")
    serializer_class = PostSerializer
    permission_classes = [IsAuthenticated, NotPrivate]
    counter_fields = ["likes"]


class OpenViewSet(IncrementMixin):
    permission_classes = [AllowAny]


class ProductViewSet(OpenViewSet):
    queryset = Product.objects.all()
    counter_fields = ["stock"]
    counter_max_delta = 2000

    def handle_exception(self, exc: Exception) -> Response:
        response = super().handle_exception(exc)
        response["X-Handled"] = "yes"
        return response


class ArticleViewSet(OpenViewSet):
    queryset = Article.objects.all()
    counter_fields = ["reads"]
    counter_max_delta = 10
    throttle_classes = [Thrice]


class NoteViewSet(DecrementMixin, OpenViewSet):
    queryset = Note.objects.all()
    counter_fields = ["likes"]


class StoryViewSet(DecrementMixin, OpenViewSet):
    queryset = Story.objects.all()
    counter_fields = ["opens", "plays", "reads"]
    counter_max_delta = 10


class OwnDecrementViewSet(OpenViewSet):
    queryset = Post.objects.all()

    @action(detail=True, methods=["post"])
    def decrement(self, request: Any, pk: str) -> Response:
        raise CounterUnavailable(using="theirs", reason="to be answered by their own handler")


class AccountViewSet(OpenViewSet):
    queryset = Account.objects.all()
    counter_fields = ["balance"]


class LazyViewSet(OpenViewSet):
    """Its record is lazy, as ``request.user`` is."""

    queryset = Member.objects.all()
    counter_fields = ["requests"]

    def get_object(self) -> Any:
        return SimpleLazyObject(super().get_object)


class SilentViewSet(OpenViewSet):
    queryset = Post.objects.all()


class MisspeltViewSet(OpenViewSet):
    queryset = Post.objects.all()
    counters_fields = ["likes"]


router = DefaultRouter()
router.register("posts", PostViewSet)
router.register("products", ProductViewSet)
router.register("articles", ArticleViewSet)
router.register("notes", NoteViewSet)
router.register("accounts", AccountViewSet)
router.register("members", LazyViewSet)
router.register("stories", StoryViewSet)
router.register("own", OwnDecrementViewSet, basename="own")
router.register("silent", SilentViewSet, basename="silent")
router.register("misspelt", MisspeltViewSet, basename="misspelt")
urlpatterns = router.urls
