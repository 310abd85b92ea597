/* What all doors share: how their names are exported, and structs that grow from one version of the
 * library to the next. */
#ifndef TUTTI_RUNTIME_API_H
#define TUTTI_RUNTIME_API_H

#include <stddef.h>

/* Around the declarations of every door: they are C's, in C++ as well. The library is compiled with
 * -fvisibility=hidden, so that what is not declared between these two stays inside it;
 * tests/golden/exports.txt lists what does not. Compilers that do not know the pragma ignore it. */
#ifdef __cplusplus
#define TUTTI_API_BEGIN \
    extern "C" {        \
    _Pragma("GCC visibility push(default)")
#define TUTTI_API_END             \
    _Pragma("GCC visibility pop") \
    }
#define TUTTI_STATIC_ASSERT(holds, text) static_assert(holds, text)
#else
#define TUTTI_API_BEGIN                  _Pragma("GCC visibility push(default)")
#define TUTTI_API_END                    _Pragma("GCC visibility pop")
#define TUTTI_STATIC_ASSERT(holds, text) _Static_assert(holds, text)
#endif

TUTTI_API_BEGIN

struct tutti_err;

/* Wishes and options (struct tutti_ask, struct tutti_play, the *_opts) begin with `size_t size`,
 * which the caller sets to sizeof the struct as it was compiled:
 *
 *     struct tutti_ask ask = {.size = sizeof(ask), .topo = machine, ...};
 *
 * Later versions append fields, whose 0 means what was before them; no field goes into what was
 * padding. So an older caller is served by a newer library, and a newer caller by an older library
 * as long as it leaves 0 what that one does not know. A size of 0 is refused. Other structs do not
 * grow: data (a step, a contract, struct tutti_coll_params, a shape) and what the library fills
 * (struct tutti_answer, struct tutti_played); they change with the number in libtutti.so.N alone.
 */

/* From the beginning of a struct to the end of one of its fields. */
#define TUTTI_BYTES_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* For those who take such a struct: copies what the caller has of it, the rest is 0. `first_bytes`
 * were there in its first version. -TUTTI_EINVAL: NULL, or a size of less; -TUTTI_ELACK: it is
 * longer than `ret_bytes`, and what is beyond is not all 0. `name` is that of the struct. */
int tutti_take(const char *name, void *ret, size_t ret_bytes, const void *given, size_t first_bytes,
               struct tutti_err *err);

TUTTI_API_END

#endif
