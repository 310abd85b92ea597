/* Reads how many tasks there are, and writes how one finds out which it is; see tasks.h. */
#include "tools/launch/tasks.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/status.h"

static int check(const struct tutti_tasks_started *tasks, struct tutti_err *err)
{
    const uint32_t workers = tutti_tasks_started_of(tasks, "worker")->count;
    const uint32_t servers = tutti_tasks_started_of(tasks, "ps")->count;

    if (tasks->count > TUTTI_TASKS_STARTED_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%" PRIu32 "' tasks of all types (at most %d)",
                          tasks->count, TUTTI_TASKS_STARTED_MAX);
    if (workers == 0 && servers > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--ps': '%" PRIu32 "' servers and no worker (--worker N)",
                          servers);
    if (workers + tutti_tasks_started_of(tasks, "chief")->count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--worker': how many are to train (1 to %d, or --chief)",
                          TUTTI_TASKS_STARTED_MAX);
    return 0;
}

int tutti_tasks_started_read(const struct tutti_args *args, uint32_t workers,
                             struct tutti_tasks_started *ret, struct tutti_err *err)
{
    const uint32_t asked =
        tutti_args_given(args, "worker") ? (uint32_t)tutti_args_number(args, "worker") : workers;
    struct tutti_tasks_started tasks = {
        .types = {
            {.name = "chief", .replica = "Chief", .count = tutti_args_flag(args, "chief") ? 1 : 0},
            {.name = "worker", .replica = "Worker", .count = asked},
            {.name = "ps", .replica = "PS", .count = (uint32_t)tutti_args_number(args, "ps")},
            {.name = "evaluator",
             .replica = "Evaluator",
             .count = tutti_args_flag(args, "evaluator") ? 1 : 0}}};
    int status;

    for (size_t i = 0; i < TUTTI_TASK_TYPES; i++) {
        tasks.types[i].first = tasks.count;
        tasks.count += tasks.types[i].count;
    }
    status = check(&tasks, err);
    if (status == 0)
        *ret = tasks;
    return status;
}

const struct tutti_task_type *tutti_tasks_started_of(const struct tutti_tasks_started *tasks,
                                                     const char *name)
{
    size_t i = 0;

    while (strcmp(tasks->types[i].name, name) != 0) {
        i++;
        assert(i < TUTTI_TASK_TYPES);
    }
    return &tasks->types[i];
}

void tutti_tasks_started_print(const struct tutti_tasks_started *tasks, FILE *out)
{
    const char *before = "";

    for (size_t i = 0; i < TUTTI_TASK_TYPES; i++) {
        const struct tutti_task_type *t = &tasks->types[i];

        if (t->count == 0)
            continue;
        fprintf(out, "%s%" PRIu32 " %s%s", before, t->count, t->name,
                t->count > 1 && strcmp(t->name, "worker") == 0 ? "s" : "");
        before = ", ";
    }
}

void tutti_tasks_started_print_shell(const struct tutti_tasks_started *tasks, const char *number,
                                     const char *indent, FILE *out)
{
    uint32_t left = tasks->count;
    const char *word = "if";

    fprintf(out, "%si=$%s\n", indent, number);
    for (size_t i = 0; i < TUTTI_TASK_TYPES; i++) {
        const struct tutti_task_type *t = &tasks->types[i];

        if (t->count == 0)
            continue;
        left -= t->count;
        fprintf(out, "%s", indent);
        if (left > 0) {
            fprintf(out, "%s [ \"$i\" -lt %" PRIu32 " ]; then ", word, t->first + t->count);
            word = "elif";
        } else if (t->count < tasks->count) {
            fputs("else ", out);
        }
        fprintf(out, "type=%s", t->name);
        if (t->first > 0)
            fprintf(out, "; i=$((i - %" PRIu32 "))", t->first);
        fputc('\n', out);
    }
    if (strcmp(word, "elif") == 0)
        fprintf(out, "%sfi\n", indent);
    fprintf(out,
            "%sexport TF_CONFIG=\"{\\\"cluster\\\":$TUTTI_CLUSTER,"
            "\\\"task\\\":{\\\"type\\\":\\\"$type\\\",\\\"index\\\":$i}}\"\n",
            indent);
    fprintf(out, "%sexec tutti train \"$@\"\n", indent);
}
