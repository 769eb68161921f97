"""From a bare Python to running servers, with the standard library alone.

``environment`` finds or makes an interpreter that has the packages, ``services`` brings PostgreSQL
and Valkey up and down, ``commands`` joins the two for the ``python3 -m ...`` commands.
"""
