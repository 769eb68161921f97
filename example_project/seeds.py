"""What stands in the shop and the blog when they open, and taking it away again."""

from __future__ import annotations

from decimal import Decimal

from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from django_counters.contrib.holds.models import CounterHold
from django_counters.models import Counter
from example_project.blog.models import Post
from example_project.named import remove
from example_project.shop.models import Order, Product
from example_project.tally import STOCK

SALE_UNITS = 500
SALE = "flash-sale-lamp"
PRODUCTS = (
    (SALE, "Flash sale: desk lamp", "Five hundred of them, sixty people want one.", "19.00", 500),
    ("mug", "Mug", "Holds tea, coffee and pencils.", "9.50", 40),
    ("notebook", "Notebook", "Dotted, 160 pages, lies flat.", "12.00", 25),
    ("bicycle-bell", "Bicycle bell", "The last three.", "7.90", 3),
)
POSTS = (
    ("two-buyers-one-lamp", "Two buyers, one lamp", "Both saw one lamp left. One got it."),
    ("what-a-view-is", "What a view is", "One page that somebody has seen. Asking for it is none."),
    ("lost-updates", "Where updates go when they are lost", "Read, add one, write. Twice at once."),
    ("counting-last", "Count last", "Others wait from your increment to your commit."),
    ("a-floor-of-zero", "A floor of zero", "A stock cannot fall below it, whoever asks."),
    ("rolled-back", "Rolled back", "A view in a transaction that failed was no view."),
)
NAMESPACES = ("downloads", "visits", "orders")
# Ordered by telephone: nobody does that while the load runs.
PHONE = "orders:phone"
# Members of the staff, with what they may do; each one's password is the name.
_LOOK = (
    *("django_counters.view_counter", "django_counters.view_counteradjustment"),
    *("django_counters.view_adjustmentrequest", "django_counters.view_counterincident"),
    *("shop.view_product", "shop.view_order", "blog.view_post"),
)
STAFF = {
    "clerk": (*_LOOK, "django_counters.adjust_counter"),
    "boss": (*_LOOK, "django_counters.approve_adjustment"),
}


class NotOurs(Exception):
    """The database was not set up by this example; nothing in it was touched."""


def sow() -> None:
    """Add what is missing; fill the flash sale up to 500 units. Existing counts stay."""
    for slug, name, blurb, price, stock in PRODUCTS:
        defaults = {"name": name, "blurb": blurb, "price": Decimal(price), "stock": stock}
        Product.objects.get_or_create(slug=slug, defaults=defaults)
    for slug, title, body in POSTS:
        Post.objects.get_or_create(slug=slug, defaults={"title": title, "body": body})
    sale = Product.objects.get(slug=SALE)
    if sale.stock < SALE_UNITS:
        sale.stock.increment(SALE_UNITS - sale.stock)


def correct() -> None:
    """Adjust what was wrong from the beginning, once: two broken mugs, an order that was a test."""
    Product.objects.adjust_many(
        "stock",
        by={Product.objects.get(slug="mug").pk: -2},
        reason="Stocktake before the opening: two are broken",
        actor="stocktake",
        case="opening",
    )
    with transaction.atomic():
        if not Counter.objects.value(PHONE):
            Counter.objects.increment(PHONE, 12)
            Counter.objects.adjust(PHONE, by=-1, reason="One was a test", actor="telephone")


def add_demo_users() -> None:
    """Create the superuser demo, a clerk and a boss, those of them that there are not yet."""
    if not User.objects.filter(username="demo").exists():
        User.objects.create_superuser("demo", password="demo")
    for name, permissions in STAFF.items():
        user, is_new = User.objects.get_or_create(username=name, defaults={"is_staff": True})
        if is_new:
            user.set_password(name)
            user.save()
            user.user_permissions.set(map(_permission, permissions))


def _permission(name: str) -> Permission:
    app, _, codename = name.partition(".")
    return Permission.objects.get(content_type__app_label=app, codename=codename)


def runs_on_our_own_server() -> bool:
    """Whether nobody but this run can reach the database server."""
    return bool(getattr(settings, "OUR_OWN_SERVER", False))


def refuse_foreign_database() -> None:
    """Return if the database is empty or was set up by this example.

    Raises:
        NotOurs: it holds tables, but none of this example.
    """
    tables = connection.introspection.table_names()
    applied = {app for app, _ in MigrationRecorder(connection).applied_migrations()}
    if tables and "shop" not in applied:
        raise NotOurs(
            f"--fresh: the database {connection.settings_dict['NAME']} was not set up by this "
            "example, so nothing is removed from it"
        )


@transaction.atomic
def clear_site() -> str:
    """Remove the rows and counters of shop and blog; say what was removed."""
    CounterHold._base_manager.filter(field=STOCK).delete()
    orders, _ = Order.objects.all().delete()
    products, _ = Product.objects.all().delete()
    _, posts = Post.objects.all().delete()
    return (
        f"removed {orders} orders, {products} products, {posts.get('blog.Post', 0)} posts "
        f"and {clear_counters(*NAMESPACES)}"
    )


def clear_counters(*names: str) -> str:
    """Remove the named counters of these namespaces; say how many there were."""
    removed = sum(remove(name) for name in names)
    return f"{removed} counters of {', '.join(f'{name}:' for name in names)}"
