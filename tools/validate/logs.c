/* Reads the files of --log; see logs.h. */
#include "tools/validate/logs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/cli/machine.h"
#include "tools/options.h"
#include "topo/hardware.h"
#include "traces/csv.h"

/* Our CSV names its columns in the first line that is no comment. */
static bool is_csv(const char *text)
{
    while (*text == '#' || *text == '\n' || *text == '\r') {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    for (const char *p = text; *p != '\0' && *p != '\n'; p++) {
        if (strncmp(p, "size_bytes", 10) == 0)
            return true;
    }
    return false;
}

static int read_log(const char *path, struct tutti_log_file *ret, struct tutti_err *err)
{
    struct tutti_log_file log = {.path = path, .name = strcmp(path, "-") == 0 ? "stdin" : path};
    char *text = NULL;
    size_t bytes = 0;
    int status = tutti_file_read(path, &text, &bytes, err);

    if (status < 0)
        return status;
    log.is_csv = is_csv(text);
    status = log.is_csv ? tutti_csv_measurements_parse(log.name, text, bytes, &log.tables, err)
                        : tutti_nccl_tests_parse(log.name, text, bytes, &log.tables, err);
    free(text);
    if (status == 0)
        *ret = log;
    return status;
}

int tutti_logs_read(const struct tutti_args *args, struct tutti_logs *ret, struct tutti_err *err)
{
    struct tutti_logs logs = {0};
    uint32_t count = 0;
    int status = 0;

    while (tutti_args_word(args, "log", count) != NULL)
        count++;
    logs.logs = calloc(count > 0 ? count : 1, sizeof(*logs.logs));
    if (logs.logs == NULL)
        return tutti_nomem(err);
    while (status == 0 && logs.log_count < count) {
        status =
            read_log(tutti_args_word(args, "log", logs.log_count), &logs.logs[logs.log_count], err);
        logs.log_count += status == 0;
    }
    if (status < 0)
        tutti_logs_done(&logs);
    *ret = logs;
    return status;
}

void tutti_logs_done(struct tutti_logs *logs)
{
    for (uint32_t i = 0; i < logs->log_count; i++)
        tutti_nccl_log_free(&logs->logs[i].tables);
    free(logs->logs);
    *logs = (struct tutti_logs){0};
}

static int table_machine(const struct tutti_nccl_table *table, char *spec, size_t spec_bytes,
                         struct tutti_err *err)
{
    if (table->device[0] == '\0' || table->host_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "it does not list the GPU of every rank, by which the machine could be "
                          "told (SPEC --log FILE)");
    if (table->uneven || table->rank_count % table->host_count != 0)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "its hosts do not list as many of the same GPU each, as presets have them "
            "(SPEC --log FILE)");
    return tutti_hw_device_spec(table->device, table->rank_count / table->host_count,
                                table->host_count, table->network != NULL ? table->network : "",
                                spec, spec_bytes, err);
}

static int tell_machine(const struct tutti_logs *logs, char *spec, size_t spec_bytes,
                        struct tutti_err *err)
{
    char other[sizeof(logs->machine)];

    spec[0] = '\0';
    for (uint32_t i = 0; i < logs->log_count; i++) {
        const struct tutti_log_file *log = &logs->logs[i];

        for (size_t j = 0; j < log->tables.table_count; j++) {
            int status = table_machine(&log->tables.tables[j], other, sizeof(other), err);

            if (status < 0)
                return tutti_wrap(err, status, "%s", log->name);
            if (spec[0] != '\0' && strcmp(spec, other) != 0)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "%s: it lists %s, and what comes before lists %s (logs of one "
                                  "machine, or SPEC --log FILE)",
                                  log->name, other, spec);
            (void)snprintf(spec, spec_bytes, "%s", other);
        }
    }
    return 0;
}

int tutti_logs_load_machine(struct tutti_logs *logs, const char *spec, uint32_t nodes,
                            struct tutti_topo **ret, struct tutti_err *err)
{
    int status = 0;

    if (spec == NULL && nodes > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'--nodes' joins copies of the host of a SPEC, and without one the log "
                          "says how many there are (SPEC, or no --nodes)");
    if (spec == NULL) {
        logs->tell_machine = true;
        status = tell_machine(logs, logs->machine, sizeof(logs->machine), err);
        spec = logs->machine;
    }
    return status < 0 ? status : tutti_machine_load(spec, nodes, ret, err);
}
