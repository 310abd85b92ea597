/* A breath between two looks at shared memory, where there is no instruction for it. */
#include "runtime/exec/threads/hall.h"

void tutti_hall_breathe(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}
