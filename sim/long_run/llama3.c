/* Interruptions of Llama 3's pre-training; see long_run.h. */
#include "sim/long_run.h"

/* 54 days of 16,384 devices, in seconds, over so many of a kind. */
#define EVERY(count) (54.0 * 86400 * 16384 / (count))

const struct tutti_failure_cause tutti_failures_llama3[] = {
    {.name = "device", .mtbf_s = EVERY(268)},  /* GPU 148, HBM3 72, SRAM 19, system processor 17,
                                                  silent data corruption 6, thermal 6 */
    {.name = "host", .mtbf_s = EVERY(46)},     /* maintenance 32, SSD 3, power supply 3, chassis 2,
                                                  IO board 2, CPU 2, memory 2 */
    {.name = "network", .mtbf_s = EVERY(42)},  /* switch or cable 35, NIC 7 */
    {.name = "software", .mtbf_s = EVERY(63)}, /* bugs 54, NCCL's watchdog 7, dependencies 2 */
    {.name = "planned", .mtbf_s = EVERY(47)},  /* firmware, settings, new data */
};

const uint32_t tutti_failures_llama3_count =
    sizeof(tutti_failures_llama3) / sizeof(tutti_failures_llama3[0]);
