"""The operations of document 003 as OpenAPI describes them: bodies are read by us, so FastAPI cannot see them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from neve.model import operation_answers as answers
from neve.model.operations import OPERATION

_REFERENCE = "#/components/schemas/{model}"
JSON = "application/json"
_ANSWERS = (
    answers.TableCreated,
    answers.TableList,
    answers.TableDescribed,
    answers.TableDropped,
    answers.NamespaceDropped,
    answers.QueryAnswer,
    answers.SqlChanged,
    answers.CsvExported,
    answers.Written,
    answers.Updated,
    answers.Deleted,
    answers.HardDeleted,
    answers.Upserted,
    answers.Compacted,
)
_METADATA = {
    "type": "object",
    "required": ["request_id", "execution_time_ms"],
    "properties": {"request_id": {"type": "string"}, "execution_time_ms": {"type": "number"}},
}
_DONE = {
    "type": "object",
    "required": ["success", "metadata"],
    "properties": {"success": {"const": True}, "metadata": _METADATA},
    "anyOf": [{"$ref": _REFERENCE.format(model=answer.__name__)} for answer in _ANSWERS],
}
_FAILURE = {
    "type": "object",
    "required": ["success", "error", "metadata"],
    "properties": {
        "success": {"const": False},
        "error": {
            "type": "object",
            "required": ["code", "message", "field", "details", "suggestion"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "field": {"type": ["string", "null"], "description": "what in the request it is about"},
                "details": {"type": "object"},
                "suggestion": {"type": ["string", "null"], "description": "what to do about it"},
            },
        },
        "metadata": _METADATA,
    },
}
FAILED: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "what went wrong",
        "content": {JSON: {"schema": {"$ref": _REFERENCE.format(model="Failure")}}},
    }
}
"""The answer of every route that fails in the words of document 003."""

ANSWERED: dict[int | str, dict[str, Any]] = {
    200: {"description": "done", "content": {JSON: {"schema": {"$ref": _REFERENCE.format(model="Done")}}}},
    **FAILED,
}
INVOKED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "the answer, whatever its status is",
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["statusCode", "headers", "body"],
                    "properties": {
                        "statusCode": {"type": "integer"},
                        "headers": {"type": "object"},
                        "body": {"type": "string", "description": "JSON, as POST /database answers it"},
                    },
                }
            }
        },
    },
    **FAILED,
}
EVENT = {
    "type": "object",
    "required": ["httpMethod", "path"],
    "properties": {
        "httpMethod": {"type": "string", "enum": ["POST", "GET"]},
        "path": {"type": "string", "enum": ["/database", "/health"]},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "body": {"type": "string", "description": "the JSON of an operation"},
        "isBase64Encoded": {"type": "boolean"},
    },
}


def operation_words() -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a body, and all schemas that it and the answers speak of, by their names."""
    body = OPERATION.json_schema(ref_template=_REFERENCE)
    words: dict[str, Any] = body.pop("$defs")
    _, told = models_json_schema([(answer, "serialization") for answer in _ANSWERS], ref_template=_REFERENCE)
    return body, {**words, **told["$defs"], "Done": _DONE, "Failure": _FAILURE}
