/* PMIx, where this build has it: process 0 hands a word to the processes of its launcher, wherever
 * their hosts are. libpmix is an optional library of the command, not of libtutti. */
#ifndef TUTTI_TOOLS_RUN_PMIX_H
#define TUTTI_TOOLS_RUN_PMIX_H

#include <stdbool.h>

#include "runtime/launch.h"

struct tutti_err;

/* "4.2.2" of the library; NULL: this build has none. */
const char *tutti_pmix_version(void);

/* Whether a server of PMIx has started this process, and this build can speak to it. */
bool tutti_pmix_is_there(const struct tutti_env *env);

/* As tutti_launch_share: collective; in process 0 `word` is read, in the others written. Once in
 * the life of a process. -TUTTI_ETIME where not all processes have come before the deadline. */
int tutti_pmix_share(const struct tutti_launch *launch, char word[TUTTI_LAUNCH_SHARE_BYTES],
                     tutti_ps deadline_ps, struct tutti_err *err);

#endif
