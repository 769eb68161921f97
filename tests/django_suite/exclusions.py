"""Which of Django's tests run, and which of them have another outcome with counters."""

from __future__ import annotations

import django

Reasons = dict[str, tuple[str, ...]]

#: Applications in Django's ``tests`` folder that use integer fields.
APPLICATIONS = (
    "aggregation",
    "aggregation_regress",
    "annotations",
    "basic",
    "bulk_create",
    "db_functions",
    "defer",
    "delete",
    "delete_regress",
    "expressions",
    "expressions_case",
    "expressions_window",
    "field_deconstruction",
    "filtered_relation",
    "forms_tests",
    "get_or_create",
    "lookup",
    "model_fields",
    "model_forms",
    "model_inheritance",
    "ordering",
    "queries",
    "serializers",
    "update",
    "validation",
)

#: Tests that fail with counters, by the reason.
FAILING: Reasons = {
    "save() and bulk_update() leave a counter as it is": (
        "model_fields.test_generatedfield.StoredGeneratedFieldTests.test_bulk_update",
        "model_fields.test_generatedfield.StoredGeneratedFieldTests.test_save",
        "model_fields.test_generatedfield.VirtualGeneratedFieldTests.test_bulk_update",
        "model_fields.test_generatedfield.VirtualGeneratedFieldTests.test_save",
        "queries.tests.ValuesSubqueryTests.test_values_in_subquery",
    ),
    "a form shows a counter and does not change it": (
        "forms_tests.tests.tests.FormsModelTestCase.test_formfield_initial",
        "model_forms.tests.CustomCleanTests.test_override_clean",
        "model_forms.tests.ModelOneToOneFieldTests.test_modelform_subclassed_model",
        "model_forms.tests.ModelOtherFieldTests.test_big_integer_field",
        "model_forms.tests.OtherModelFormTests.test_callable_field_default",
        "model_forms.tests.UniqueTest.test_abstract_inherited_unique",
        "model_forms.tests.UniqueTest.test_multiple_field_unique_together",
    ),
}
if django.VERSION >= (6, 0):
    FAILING["save() reads back what the database has"] = (
        "model_forms.tests.FileAndImageFieldTests.test_image_field",
    )

#: Tests that are not run, by the reason.
NOT_RUN: Reasons = {
    "they measure time, and have no counters": (
        "serializers.test_deserialization.TestDeserializer.test_crafted_xml_performance",
    ),
}
