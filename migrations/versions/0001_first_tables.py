"""Versions, classes, updates and their events; and the one line that says which version is active.

Revision: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _versions()
    _updates()


def downgrade() -> None:
    for table in ("update_events", "updates", "classes", "lines", "versions"):
        op.drop_table(table)


def _versions() -> None:
    op.create_table(
        "versions",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parent", sa.Integer()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("update_id", sa.Text()),
        sa.PrimaryKeyConstraint("number", name="pk_versions"),
        sa.ForeignKeyConstraint(["parent"], ["versions.number"], name="fk_versions_parent_versions"),
        sa.UniqueConstraint("bundle", name="uq_versions_bundle"),
    )
    lines = op.create_table(
        "lines",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer()),
        sa.Column("names_revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lines"),
        sa.ForeignKeyConstraint(["version"], ["versions.number"], name="fk_lines_version_versions"),
    )
    op.bulk_insert(lines, [{"name": "main", "version": None, "names_revision": 0}])
    op.create_table(
        "classes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_classes"),
    )


def _updates() -> None:
    op.create_table(
        "updates",
        sa.Column("seq", BIG_ID, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.Column("eta_seconds", sa.Double()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("clean_stops", sa.Integer(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column("images", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text()),
        sa.Column("ended_at", sa.Text()),
        sa.Column("parent", sa.Integer()),
        sa.Column("version", sa.Integer()),
        sa.Column("instant_version", sa.Integer()),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_detail", sa.Text()),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("purged_at", sa.Text()),
        sa.Column("receipt", sa.JSON(), nullable=False),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("heartbeat_at", sa.Text()),
        sa.PrimaryKeyConstraint("seq", name="pk_updates"),
        sa.UniqueConstraint("id", name="uq_updates_id"),
        sa.UniqueConstraint("idempotency_key", name="uq_updates_idempotency_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_updates_state", "updates", ["state"])
    _events()


def _events() -> None:
    op.create_table(
        "update_events",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("update_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_update_events"),
        sa.ForeignKeyConstraint(["update_id"], ["updates.id"], name="fk_update_events_update_id_updates"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_update_events_update_id", "update_events", ["update_id"])
