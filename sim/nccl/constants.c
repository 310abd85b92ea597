/* NCCL's tables of times and rates, version by version: graph/tuning.cc of NCCL's repository. */
#include "sim/nccl/constants.h"

/* What has not changed since 2.19: LL and LL128, rings, CollNet inside and between nodes. */
#define BASE(tree_simple, pat) \
    .base_us = {{6.8, 14.0, tree_simple}, {6.6, 14.0, 8.4}, [TUTTI_NCCL_PAT] = {pat, pat, pat}}

#define STEPS(tree, tree_net, nvls, nvls_tree_net) \
    .step_us = {                                   \
        [TUTTI_WIRE_NVLINK] = {{0.6, 1.25, tree},  \
                               {0.6, 1.9, 3.4},    \
                               {0, 0, 3.7},        \
                               {0, 0, 2.8},        \
                               {0, 0, nvls},       \
                               {0, 0, nvls},       \
                               {0, 0, 4}},         \
        [TUTTI_WIRE_PCI] = {{1, 1.9, tree},        \
                            {1, 2.5, 5.7},         \
                            {0, 0, 3.7},           \
                            {0, 0, 2.8},           \
                            {0, 0, 0},             \
                            {0, 0, 0},             \
                            {0, 0, 4}},            \
        [TUTTI_WIRE_NET] = {{5, 8.5, tree_net},    \
                            {2.7, 4, 14},          \
                            {0, 0, 31},            \
                            {0, 0, 30},            \
                            {0, 0, 18},            \
                            {0, 0, nvls_tree_net}, \
                            {0, 0, 14}},           \
    }

#define CORRECTION                                                                                \
    .tree_correction = {                                                                          \
        {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},  \
        {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1}, \
        {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,                                          \
         .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},                                         \
    }

#define LL .ll_GBps = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}

/* Of Blackwell; the rows before it never changed. */
#define RING_LL128(...) \
    .ring_ll128_GBps = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {__VA_ARGS__}}
#define TREE_LL128(...) \
    .tree_ll128_GBps = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {__VA_ARGS__}}
#define TREE(...) .tree_GBps = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {__VA_ARGS__}}
#define NVLS_TREE(...) \
    .nvls_tree_GBps = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {__VA_ARGS__}}
#define NVLS .nvls_efficiency = {0, 0, 0.85, 0.74}

#define SINCE_22803                                                                    \
    BASE(8.4, 8), STEPS(4, 14, 25, 20.9), CORRECTION, LL, TREE_LL128(55.6, 31.67, 20), \
        TREE(70, 42.8, 24), NVLS

/* ---- before 2.19 --------------------------------------------------------------------------- */

/* CollNet's and NVLS' steps were others; those of PCI never changed until 2.18. */
#define OLD_STEPS(tree_ll, tree_ll128, ring_ll, ring_ll128, ring) \
    [TUTTI_WIRE_NVLINK] = {{tree_ll, tree_ll128, 28},             \
                           {ring_ll, ring_ll128, ring},           \
                           {0, 0, 8},                             \
                           {0, 0, 8}},                            \
    [TUTTI_WIRE_PCI] = {{1, 1.9, 28}, {1, 2.5, 5.7}, {0, 0, 8}, {0, 0, 8}}
#define OLD_NET(tree_ll128, tree, ring_ll, ring_ll128, ring) \
    [TUTTI_WIRE_NET] = {                                     \
        {5, tree_ll128, tree}, {ring_ll, ring_ll128, ring}, {0, 0, 10.7}, {0, 0, 10.7}}

#define OLD_BASE(ring_ll128) \
    .base_us = {{4.4, 4.4, 0}, {3.6, ring_ll128, 8.4}, [TUTTI_NCCL_NVLS] = {0, 0, 40}}

/* Between nodes the CPU bounds LL, on one the GPUs: the last row is of Hopper on one. */
#define OLD_LL(...) .ll_GBps = {{39, 39, 20.4}, {87.7, 22.5, 19}, {__VA_ARGS__}}
#define EACH(GBps)       \
    {                    \
        GBps, GBps, GBps \
    }

/* What 2.18's patches share; they differ in a step of Simple's trees. */
#define OF_2_18(nvlink_tree, pci_tree, net_tree)                                                   \
    .base_us = {{6.8, 14, 0}, {6.6, 14, 8.4}, {0, 0, 0}, {0, 0, 0}, {0, 0, 23}, {0, 0, 23}},       \
    .step_us =                                                                                     \
        {[TUTTI_WIRE_NVLINK] = {{.6, 1.25, nvlink_tree}, {.6, 1.9, 3.4}, {0, 0, 8}, {0, 0, 4.75}}, \
         [TUTTI_WIRE_PCI] = {{1, 1.9, pci_tree}, {1, 2.5, 5.7}, {0, 0, 8}, {0, 0, 8}},             \
         [TUTTI_WIRE_NET] = {{5, 8.5, net_tree},                                                   \
                             {2.7, 4, 14},                                                         \
                             {0, 0, 10.7},                                                         \
                             {0, 0, 14},                                                           \
                             {0, 0, 18},                                                           \
                             {0, 0, 19}}},                                                         \
    CORRECTION, OLD_LL(87.7, 22.5, 19), RING_LL128(0)

enum { FREE = 1000000 }; /* GB/s: no bound */

const struct tutti_nccl_constants tutti_nccl_of_20604 = {
    OLD_BASE(3.6),
    .step_us = {OLD_STEPS(.5, 1.9, .4, 2.5, 5.7), OLD_NET(7.5, 50, .9, 2.5, 6.6)},
    .tree_correction = {{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                         .5, .5, .6, .7, .8, .9, .9, 1,  1,  1,  1,  1},
                        {1,  1,  1,  1,  1,  .9, .8, .8, .8, .8, .7, .7,
                         .7, .6, .6, .7, .7, .8, .8, .9, .9, 1,  1,  1},
                        {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                         .5, .5, .5, .5, .5, .6, .6, .7, .8, .9, 1,  1}},
    .ll_GBps = {EACH(FREE), EACH(FREE), EACH(FREE)},
    .ll128_GBps_of = {113, 72, 110, 91, 100}, /* of all channels */
    .tree_ll128_GBps = {EACH(FREE), EACH(FREE), EACH(FREE)},
};

const struct tutti_nccl_constants tutti_nccl_of_20703 = {
    OLD_BASE(10),
    .step_us = {OLD_STEPS(.52, 1.2, .47, 1.9, 3.4), OLD_NET(8.5, 50, 2.7, 4, 9.6)},
    .tree_correction = {{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                         .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1,  1},
                        {1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                         .6, .5, .6, .6, .7, .7, .8, .9, .9, 1,  1,  1},
                        {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                         .5, .5, .5, .5, .5, .6, .6, .7, .8, .9, 1,  1}},
    .ll_GBps = {EACH(FREE), EACH(FREE), EACH(FREE)},
    .ll128_GBps_of = {18.8, 12, 18.3, 15.2, 16.7},
    .tree_ll128_GBps = {EACH(16.7 * 7 / 9), EACH(16.7 * 7 / 9), EACH(16.7 * 7 / 9)},
};

const struct tutti_nccl_constants tutti_nccl_of_20803 = {
    OLD_BASE(10),
    .step_us = {OLD_STEPS(.52, 1.25, .47, 1.9, 3.4), OLD_NET(8.5, 28, 2.7, 4, 9.6)},
    .tree_correction = {{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                         .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1,  1},
                        {1,  1,  1,  1,  1,  .9, .8, .8, .8, .7,  .6,  .6,
                         .6, .5, .6, .6, .7, .7, .8, .9, .9, .92, .92, 1},
                        {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                         .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, 1}},
    OLD_LL(39, 39, 20.4),
    .ll128_GBps_of = {18.8, 12, 18.3, 15.2, 16.9},
    .tree_ll128_GBps = {EACH(16.9), EACH(16.9), EACH(16.9)},
    .tree_GBps = {{26.5, 18.5, 10}, {24, 22.5, 16}, {26.5, 18.5, 10}},
};

/* Of 2.10 to 2.14: GPUs other than Ampere's are taken for Volta's. */
#define SINCE_21003                                        \
    CORRECTION, OLD_LL(39, 39, 20.4),                      \
        .ring_ll128_GBps = {EACH(20), EACH(20), EACH(20)}, \
        .tree_ll128_GBps = {EACH(20), EACH(20), EACH(20)}, \
        .tree_GBps = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {26.5, 18.5, 10}}

const struct tutti_nccl_constants tutti_nccl_of_21003 = {
    OLD_BASE(10),
    .step_us = {OLD_STEPS(.52, 1.25, .47, 1.9, 3.4), OLD_NET(8.5, 28, 2.7, 4, 9.6)},
    SINCE_21003,
};

const struct tutti_nccl_constants tutti_nccl_of_21212 = {
    OLD_BASE(10),
    .step_us = {OLD_STEPS(.52, 1.25, .47, 1.9, 3.4), OLD_NET(8.5, 28, 2.7, 4, 28)},
    SINCE_21003,
};

const struct tutti_nccl_constants tutti_nccl_of_21501 = {
    OLD_BASE(10),
    .step_us = {OLD_STEPS(.52, 1.25, .47, 1.9, 3.4), OLD_NET(8.5, 28, 2.7, 4, 9.6)},
    CORRECTION,
    OLD_LL(87.7, 22.5, 19),
    .ring_ll128_GBps = {EACH(20), EACH(20), EACH(20)},
    .tree_ll128_GBps = {EACH(20), EACH(20), EACH(20)},
    .tree_GBps = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {24, 23.6, 17.8}},
};

const struct tutti_nccl_constants tutti_nccl_of_21701 = {
    OLD_BASE(10),
    .step_us = {OLD_STEPS(.52, 1.25, .47, 1.9, 3.4), OLD_NET(8.5, 28, 2.7, 4, 9.6)},
    CORRECTION,
    OLD_LL(87.7, 22.5, 19),
    RING_LL128(0),
    .tree_ll128_GBps = {EACH(20), EACH(20), EACH(36.7)},
    .tree_GBps = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 33}},
};

const struct tutti_nccl_constants tutti_nccl_of_21801 = {
    OF_2_18(28, 28, 28),
    .tree_ll128_GBps = {EACH(20), EACH(20), EACH(36.7)},
    .tree_GBps = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 33}},
};

/* The tree's steps came down, until 2.19 put them up again. */
const struct tutti_nccl_constants tutti_nccl_of_21803 = {
    OF_2_18(4, 6, 14),
    TREE_LL128(0),
    TREE(0),
};

/* ---- since 2.19 ---------------------------------------------------------------------------- */

const struct tutti_nccl_constants tutti_nccl_of_21903 = {
    BASE(0, 0),    STEPS(28, 28, 23, 14), CORRECTION, OLD_LL(87.7, 22.5, 19),
    RING_LL128(0), TREE_LL128(0),         TREE(0),
};

const struct tutti_nccl_constants tutti_nccl_of_22105 = {
    BASE(0, 0), STEPS(28, 28, 25, 14), CORRECTION, LL, RING_LL128(0), TREE_LL128(0), TREE(0),
};

const struct tutti_nccl_constants tutti_nccl_of_22403 = {
    BASE(8.4, 8), STEPS(4, 14, 25, 14), CORRECTION, LL, RING_LL128(0), TREE_LL128(0), TREE(0),
};

const struct tutti_nccl_constants tutti_nccl_of_22501 = {
    BASE(8.4, 8),
    STEPS(4, 14, 25, 14),
    CORRECTION,
    LL,
    RING_LL128(73.4, 73.4, 73.4),
    TREE_LL128(73.4, 73.4, 58),
    TREE(77.4, 82.8, 72),
};

const struct tutti_nccl_constants tutti_nccl_of_22809 = {SINCE_22803, RING_LL128(73.4, 34.6, 73.4),
                                                         NVLS_TREE(0, 96, 43.8)};

const struct tutti_nccl_constants tutti_nccl_of_22907 = {SINCE_22803, RING_LL128(40, 40, 40),
                                                         NVLS_TREE(0, 96, 43.8)};

const struct tutti_nccl_constants tutti_nccl_of_23007 = {SINCE_22803, RING_LL128(40, 40, 40),
                                                         NVLS_TREE(0, 96, 80)};
