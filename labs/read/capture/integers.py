"""Numbers of two, four and eight bytes out of a buffer, in both byte orders.

Compiled, each is one load without a check of its bounds: the caller has checked them. As plain
Python it raises struct.error beyond the end of the buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

from labs.read.capture.compiled import HAVE_NUMBA

Word = Callable[[Any, int], int]

if HAVE_NUMBA:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    def _word(form: str) -> Word:
        bits = 8 * struct.calcsize(form)
        swap = form[0] == ">"

        def word(typing_context: Any, data: Any, at: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                array = context.make_array(signature.args[0])(context, builder, arguments[0])
                kind = ir.IntType(bits)
                place = builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())
                value = builder.load(place, align=1)
                value = builder.bswap(value) if swap else value
                return builder.zext(value, ir.IntType(64)) if bits < 64 else value

            return types.int64(data, types.int64), code

        made: Any = intrinsic(word)
        return cast(Word, made)
else:

    def _word(form: str) -> Word:
        unpack = struct.Struct(form).unpack_from

        def word(data: Any, at: int) -> int:
            value: int = unpack(data, at)[0]
            return value

        return word


# What is masked with it is known not to be negative, so that numba leaves out what it does for
# indices that count from the end.
POSITIVE = 0x7FFFFFFF

be16, be32, be64 = _word(">H"), _word(">I"), _word(">q")
le16, le32 = _word("<H"), _word("<I")
