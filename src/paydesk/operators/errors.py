"""The refusals that only operators meet, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

APPLICATION_NOT_FOUND = ErrorKind("application_not_found", 404, "There is no such application.")
SELLER_NOT_FOUND = ErrorKind("seller_not_found", 404, "There is no such seller.")
SECRET_NOT_FOUND = ErrorKind("secret_not_found", 404, "The application has no such secret.")
OPERATOR_NOT_FOUND = ErrorKind("operator_not_found", 404, "There is no such operator.")
GRANT_NOT_FOUND = ErrorKind("grant_not_found", 404, "There is no such grant.")
STORE_NOT_FOUND = ErrorKind("store_not_found", 404, "This seller has no such store.")
POS_NOT_FOUND = ErrorKind("pos_not_found", 404, "This seller has no such point of sale.")
EMAIL_TAKEN = ErrorKind("email_taken", 409, "Another seller has this e-mail address.")
TOO_MANY_SECRETS = ErrorKind("too_many_secrets", 409, "The application has as many good secrets as it may have.")
EXTERNAL_POS_ID_TAKEN = ErrorKind("external_pos_id_taken", 409, "The seller has a point of sale of this name already.")
POS_TAKEN = ErrorKind("pos_taken", 409, "Another terminal takes the orders of this point of sale.")
