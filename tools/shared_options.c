/* Reads the options that several commands have; see shared_options.h. */
#include "tools/shared_options.h"

#include "runtime/coll.h"

int tutti_shared_params(const struct tutti_args *args, struct tutti_coll_params *params,
                        struct tutti_err *err)
{
    int status =
        tutti_collective_find(tutti_args_text(args, "collective"), &params->collective, err);

    if (status == 0 && params->collective == TUTTI_CUSTOM)
        status = tutti_fail(err, TUTTI_EINVAL, "no algorithm makes 'custom' (allreduce, ...)");
    if (status < 0)
        return tutti_wrap(err, status, "option '-c'");
    status = tutti_dtype_find(tutti_args_text(args, "datatype"), &params->dtype, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '-d'");
    status = tutti_op_find(tutti_args_text(args, "op"), &params->op, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '-o'");
    params->root = (uint32_t)tutti_args_number(args, "root");
    return 0;
}
