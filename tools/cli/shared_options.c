/* Reads the options that several commands have; see shared_options.h. */
#include "tools/cli/shared_options.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <string.h>

#include "runtime/coll.h"

/* Whether an option says 'all', where that is taken. */
static bool says_all(const struct tutti_args *args, const char *option, bool *ret_all)
{
    bool all = ret_all != NULL && strcmp(tutti_args_text(args, option), "all") == 0;

    if (ret_all != NULL)
        *ret_all = all;
    return all;
}

int tutti_shared_params_of_all(const struct tutti_args *args, struct tutti_coll_params *params,
                               bool *ret_all_types, bool *ret_all_ops, struct tutti_err *err)
{
    int status =
        tutti_collective_find(tutti_args_text(args, "collective"), &params->collective, err);

    if (status == 0 && params->collective == TUTTI_CUSTOM)
        status = tutti_fail(err, TUTTI_EINVAL, "no algorithm makes 'custom' (allreduce, ...)");
    if (status < 0)
        return tutti_wrap(err, status, "option '-c'");
    if (!says_all(args, "datatype", ret_all_types))
        status = tutti_dtype_find(tutti_args_text(args, "datatype"), &params->dtype, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '-d'");
    if (!says_all(args, "op", ret_all_ops))
        status = tutti_op_find(tutti_args_text(args, "op"), &params->op, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '-o'");
    if (tutti_args_given(args, "op") && !tutti_collective_reduces(params->collective))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-o': '%s' does not reduce (allreduce, reducescatter and reduce "
                          "do)",
                          tutti_collective_name(params->collective));
    params->root = (uint32_t)tutti_args_number(args, "root");
    return tutti_shared_refuse_root(args, params->collective, err);
}

int tutti_shared_params(const struct tutti_args *args, struct tutti_coll_params *params,
                        struct tutti_err *err)
{
    return tutti_shared_params_of_all(args, params, NULL, NULL, err);
}

void tutti_shared_print_params(const struct tutti_coll_params *params, FILE *out)
{
    fputs(tutti_collective_name(params->collective), out);
    if (params->collective != TUTTI_BARRIER)
        fprintf(out, " of %s", tutti_dtype_name(params->dtype));
    if (tutti_collective_reduces(params->collective))
        fprintf(out, ", %s", tutti_op_name(params->op));
    if (tutti_collective_is_rooted(params->collective))
        fprintf(out, ", root %" PRIu32, params->root);
}

int tutti_shared_refuse_root(const struct tutti_args *args, enum tutti_collective collective,
                             struct tutti_err *err)
{
    if (tutti_args_given(args, "root") && !tutti_collective_is_rooted(collective))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-r': '%s' has no root (broadcast and reduce have)",
                          tutti_collective_name(collective));
    return 0;
}

int tutti_shared_check_root(enum tutti_collective collective, uint32_t root, uint32_t rank_count,
                            struct tutti_err *err)
{
    if (!tutti_collective_is_rooted(collective) || root < rank_count)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "root '%" PRIu32 "' is not a rank (0 to %" PRIu32 ")",
                      root, rank_count - 1);
}

bool tutti_shared_plot_utf8(const struct tutti_args *args)
{
    if (!tutti_args_is(args, "plot", "auto"))
        return tutti_args_is(args, "plot", "utf8");
    (void)setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

bool tutti_shared_wants_plot(const struct tutti_args *args, bool terminal)
{
    if (tutti_args_is(args, "plot", "auto"))
        return terminal && !tutti_args_flag(args, "quiet");
    return !tutti_args_is(args, "plot", "none");
}

int tutti_shared_check_plot(const struct tutti_args *args, struct tutti_err *err)
{
    if (!tutti_args_given(args, "plot") || tutti_args_is(args, "plot", "none") ||
        tutti_args_is(args, "format", "table"))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--plot' draws below a table, and --format %s prints none (--format "
                      "table; or --svg FILE)",
                      tutti_args_text(args, "format"));
}
