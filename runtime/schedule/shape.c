/* The flat shape: what a schedule is laid out on when nothing is known about the machine. */
#include "runtime/shape.h"

struct tutti_shape tutti_shape_flat(uint32_t rank_count)
{
    return (struct tutti_shape){.rank_count = rank_count};
}
