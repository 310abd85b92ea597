/* Real training that goes on; see going_on.h. */
#include "tools/train/going_on.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/run/run.h"

static const char *const options[] = {"restarts", "elastic", "join"};

enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

static int check_one(const struct tutti_args *args, const struct tutti_run_command *run,
                     const char *name, struct tutti_err *err)
{
    if (!tutti_args_given(args, name))
        return 0;
    if (!run->backend->launched || run->backend->on_gpu)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--%s': -B %s ends whole where it loses a process; with "
                          "'--checkpoint FOLDER' the same command goes on (-B tcp stays)",
                          name, run->backend->name);
    if (tutti_args_given(args, "emulate"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--%s' and '--emulate': who comes again is not emulated (one of "
                          "them)",
                          name);
    if (tutti_args_given(args, "hosts"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--%s' and '--hosts': nobody starts a lost process there again "
                          "('--launch N', or one command on each host)",
                          name);
    return 0;
}

int tutti_train_going_on_check(const struct tutti_args *args, const struct tutti_run_command *run,
                               struct tutti_err *err)
{
    int status = 0;

    for (int i = 0; i < OPTIONS && status == 0; i++)
        status = check_one(args, run, options[i], err);
    if (status < 0 || !tutti_args_given(args, "preempt-file"))
        return status;
    if (!tutti_args_given(args, "checkpoint") && !tutti_args_given(args, "elastic"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--preempt-file': nothing is saved before the end ('--checkpoint "
                          "FOLDER', or '--elastic MIN:MAX' for the others to go on)");
    return 0;
}

int tutti_train_elastic_read(const struct tutti_args *args, struct tutti_train_elastic_range *ret,
                             struct tutti_err *err)
{
    enum { MOST = 256 };
    const char *text = tutti_args_text(args, "elastic");
    unsigned long least;
    unsigned long most = 0;
    char *end;

    if (text == NULL)
        return 0;
    least = strtoul(text, &end, 10);
    if (*end == ':')
        most = strtoul(end + 1, &end, 10);
    if (*end != '\0' || text[0] < '0' || text[0] > '9' || least < 1 || most < least || most > MOST)
        return tutti_fail(err, TUTTI_EINVAL, "option '--elastic': '%.40s' (MIN:MAX, 1 to %d)", text,
                          MOST);
    *ret = (struct tutti_train_elastic_range){(uint32_t)least, (uint32_t)most};
    return 0;
}

int tutti_train_elastic_check(const struct tutti_args *args,
                              const struct tutti_train_elastic_range *range, struct tutti_err *err)
{
    static const char *const fixed[] = {"ranks", "micro-batch", "shard", "calibrate", "calib"};
    const bool joins = tutti_args_given(args, "join");
    const char *launch = tutti_args_text(args, "launch");
    const unsigned long count = launch != NULL ? strtoul(launch, NULL, 10) : range->least;

    if (range->least == 0 && joins)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--join' without '--elastic MIN:MAX', as those have it who are "
                          "there");
    if (range->least == 0)
        return 0;
    if (joins && launch != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--launch' and '--join' contradict each other (one of them)");
    if (count < range->least || count > range->most)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--launch': '%s' with '--elastic %s' (%u to %u)", launch,
                          tutti_args_text(args, "elastic"), range->least, range->most);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (tutti_args_given(args, fixed[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "options '--elastic' and '--%s': each process is one rank, and their "
                              "number changes (one of them)",
                              fixed[i]);
    return 0;
}
