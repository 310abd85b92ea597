/* A build without PMIx; see pmix.h. */
#include <stddef.h>

#include "runtime/status.h"
#include "tools/run/pmix.h"

const char *tutti_pmix_version(void)
{
    return NULL;
}

bool tutti_pmix_is_there(const struct tutti_env *env)
{
    (void)env;
    return false;
}

int tutti_pmix_share(const struct tutti_launch *launch, char word[TUTTI_LAUNCH_SHARE_BYTES],
                     tutti_ps deadline_ps, struct tutti_err *err)
{
    (void)word;
    (void)deadline_ps;
    return tutti_fail(err, TUTTI_ELACK, "%s has PMIx, and this build has not (libpmix-dev)",
                      launch->by);
}
