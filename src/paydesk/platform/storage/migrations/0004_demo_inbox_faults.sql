-- Why a notification in the demo inbox is not signed correctly, in a sentence; empty if it is.

ALTER TABLE demo_inbox ADD COLUMN signature_fault text NOT NULL DEFAULT '';
