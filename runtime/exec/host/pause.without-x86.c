/* A breath between two looks at shared memory, where there is no instruction for it. */
#include "runtime/exec/host/wait_set.h"

void tutti_cpu_relax(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}
