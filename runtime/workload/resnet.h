/* Blocks of ResNet, for the models that begin with them. */
#ifndef TUTTI_RUNTIME_WORKLOAD_RESNET_H
#define TUTTI_RUNTIME_WORKLOAD_RESNET_H

#include "runtime/workload/image.h"

struct tutti_resnet {
    uint32_t blocks[4];  /* of each stage */
    bool basic;          /* blocks of two convolutions of 3 x 3, not of 1 x 1, 3 x 3, 1 x 1 */
    bool stride_first;   /* v1: the first convolution of 1 x 1 has the stride; else the 3 x 3 */
    uint32_t groups;     /* of the convolution of 3 x 3 */
    uint64_t base_width; /* of a group, in channels of the first stage; 0: no groups */
    bool squeezes;       /* squeeze and excitation by a sixteenth */
};

/* The stem, and the stages before `end`: of those, the last has the stride `last_stride`. */
void tutti_resnet_trunk(struct tutti_build *build, const struct tutti_resnet *shape, unsigned end,
                        uint32_t last_stride);

#endif
