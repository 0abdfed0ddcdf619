"""What a field of a class means where no docstring says so: the comment at the end of its line."""

import tokenize
from io import StringIO
from typing import Any

import griffe


class Comments(griffe.Extension):
    """Take the comment behind a field as its docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **others: Any) -> None:
        """Look at the source of a field that has no docstring."""
        if attr.docstring is not None or attr.lineno is None:
            return
        try:
            tokens = list(tokenize.generate_tokens(StringIO(attr.source).readline))
        except (tokenize.TokenError, SyntaxError):
            return
        said = [token.string.removeprefix("#").strip() for token in tokens if token.type == tokenize.COMMENT]
        if said:
            attr.docstring = griffe.Docstring(said[-1], lineno=attr.lineno, parent=attr)
