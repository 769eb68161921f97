from __future__ import annotations

from typing import ClassVar

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import django_counters.fields


def forget_likes(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """Begin with nobody: whose the likes so far were, is not known."""
    using = editor.connection.alias
    apps.get_model("blog", "Post")._base_manager.using(using).update(likes=0)
    kinds = apps.get_model("contenttypes", "ContentType")._base_manager.using(using)
    post = kinds.filter(app_label="blog", model="post").first()
    slots = apps.get_model("django_counters", "SlottedCounter")._base_manager.using(using)
    if post is not None:
        slots.filter(record_type_id=post.pk, name="likes").delete()


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [
        ("blog", "0006_top_of_the_week"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("django_counters", "0001_initial"),
    ]

    operations = [
        # The column stays as it is: who likes a post is a row in a table of the app.
        migrations.AlterField(
            model_name="post",
            name="likes",
            field=django_counters.fields.CounterField(default=0, once=True, strategy="slotted"),
        ),
        migrations.RunPython(forget_likes, migrations.RunPython.noop),
    ]
