/* The two ways on which process 0 hands a word to the processes of its launcher. */
#ifndef TUTTI_RUNTIME_LAUNCH_SHARE_H
#define TUTTI_RUNTIME_LAUNCH_SHARE_H

#include "runtime/launch.h"

/* Milliseconds of a clock that never goes back, and those left until `end_ms`, at most an hour. */
int64_t tutti_launch_now_ms(void);
int tutti_launch_left_ms(int64_t end_ms);

/* By a socket of this host, named after the job. */
int tutti_launch_share_here(const struct tutti_launch *launch, char word[TUTTI_LAUNCH_SHARE_BYTES],
                            int64_t end_ms, struct tutti_err *err);

/* By PMI-1 (the text protocol of MPICH's Hydra; Flux RFC 13) on a descriptor of the launcher. */
int tutti_launch_share_pmi(int fd, const struct tutti_launch *launch,
                           char word[TUTTI_LAUNCH_SHARE_BYTES], int64_t end_ms,
                           struct tutti_err *err);

/* Of a line of PMI-1, "cmd=get_result rc=0 value=x": the value of a key; false if it has none, or
 * it is longer than there is room for. */
bool tutti_pmi_value(const char *line, const char *key, char *ret, size_t ret_bytes);

#endif
