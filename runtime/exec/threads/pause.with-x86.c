/* A breath between two looks at shared memory, on x86. */
#include "runtime/exec/threads/hall.h"

void tutti_hall_breathe(void)
{
    __builtin_ia32_pause();
}
