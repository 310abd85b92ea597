/* What all doors share: their names are C's, in C++ as well, and libtutti.so exports them alone. */
#ifndef TUTTI_RUNTIME_API_H
#define TUTTI_RUNTIME_API_H

/* Around the declarations of every door. The library is compiled with -fvisibility=hidden, so that
 * whatever is not declared between these two stays inside it; tests/golden/exports.txt lists what
 * does not. Compilers that do not know the pragma ignore it, as the standard wants. */
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

#endif
