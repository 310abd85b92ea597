/* Which pacer; see pacer.h. */
#include "runtime/exec/emulate/pacer.h"

#include "runtime/group.h"

int tutti_pacer_open(const struct tutti_pacer_opts *opts, struct tutti_pacer **ret,
                     struct tutti_err *err)
{
    return opts->group->count == 1 ? tutti_local_pacer_open(opts, ret, err)
                                   : tutti_shared_pacer_open(opts, ret, err);
}
