/* Which loops an x86 processor can run: those of the instruction set that reductions use. */
#include <string.h>

#include "runtime/data.h"
#include "runtime/train/loops.h"

const struct tutti_loops *tutti_loops_at(size_t index)
{
    static const struct tutti_loops *const all[] = {&tutti_loops_avx512, &tutti_loops_avx2,
                                                    &tutti_loops_generic};
    size_t first = 0;

    while (first < 2 && strcmp(all[first]->isa, tutti_reduce_isa()) != 0)
        first++;
    return index < 3 - first ? all[first + index] : NULL;
}
