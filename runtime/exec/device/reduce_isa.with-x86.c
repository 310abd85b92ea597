/* Which kernels this x86 processor can run. */
#include <cpuid.h>
#include <stdatomic.h>

#include "runtime/exec/device/kernels.h"

/* __builtin_cpu_supports knows no "f16c" in older compilers. Asked once: in a virtual machine cpuid
 * traps to the hypervisor, tens of microseconds, and every reduction comes by here. Threads that
 * race for the first question get the same answer. */
static int has_f16c(void)
{
    enum { NOT_ASKED, NO, YES };
    static atomic_int answer = NOT_ASKED;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    unsigned a, b, c, d;

    if (known == NOT_ASKED) {
        known = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0 ? YES : NO;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == YES;
}

const struct tutti_kernels *tutti_kernels_at(size_t index)
{
    const struct tutti_kernels *found[3] = {0};
    size_t count = 0;
    /* The builtin also asks whether the operating system saves the wide registers. */
    int avx2 = __builtin_cpu_supports("avx2") && has_f16c();

    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        found[count++] = &tutti_kernels_avx512;
    if (avx2)
        found[count++] = &tutti_kernels_avx2;
    found[count++] = &tutti_kernels_generic;
    return index < count ? found[index] : NULL;
}
