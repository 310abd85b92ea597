/* Tables to fit to: those of traces/measured, or logs, which are written as text of its form and
 * read as such; see fit_logs.h. */
#include "tools/calibrate/fit_logs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/status.h"
#include "tools/cli/nccl_options.h"
#include "tools/validate/cases.h"
#include "tools/validate/logs.h"
#include "tools/validate/measured_files.h"
#include "tools/validate/measurements.h"
#include "topo/topo.h"

struct logs {
    const struct tutti_args *args;
    const char *spec; /* of the machine, as typed or as the files tell */
    struct tutti_logs files;
    struct tutti_topo *topo;
    struct tutti_nccl_options nccl;
    struct tutti_measurements measurements;
    struct tutti_cases cases;
};

/* Other machines have no links and GPUs that what protocols cost could be told of. */
static int find_machine(struct logs *logs, struct tutti_err *err)
{
    const char *spec = tutti_args_operand(logs->args, 0);
    int status = tutti_logs_load_machine(
        &logs->files, spec, (uint32_t)tutti_args_number(logs->args, "nodes"), &logs->topo, err);

    if (status < 0)
        return status;
    logs->spec = spec != NULL ? spec : logs->files.machine;
    if (logs->topo->hardware == NULL)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "'%s' does not say what its GPUs and links are, which NCCL's costs depend "
            "on (a machine such as dgx-h100:nodes=2)",
            logs->spec);
    return 0;
}

static int read_all(struct logs *logs, struct tutti_err *err)
{
    struct tutti_measurements_ask ask = {
        .topo = logs->topo,
        .spec = logs->spec,
        .has_collective = tutti_args_given(logs->args, "collective"),
        .bytes_max = UINT64_MAX,
    };
    int status = 0;

    if (ask.has_collective)
        status =
            tutti_collective_find(tutti_args_text(logs->args, "collective"), &ask.collective, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '-c'");
    status = tutti_measurements_take(&ask, &logs->files, &logs->measurements, &logs->cases, err);
    if (status == 0 && logs->cases.case_count == 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "nothing can be fitted to in '%s' (rows with a size and a time)",
                            tutti_args_word(logs->args, "log", 0));
    return status;
}

/* "NCCL_ALGO=Ring,Tree,NCCL_PROTO=LL" with a blank before each variable. */
static void write_env(const char *text, FILE *out)
{
    const char *comma;

    if (text == NULL || text[0] == '\0')
        return;
    comma = tutti_nccl_env_comma(text);
    fputs("env ", out);
    for (; *text != '\0'; text++) {
        fputc(text == comma ? ' ' : *text, out);
        if (text == comma)
            comma = tutti_nccl_env_comma(text + 1);
    }
    fputc('\n', out);
}

/* The machine goes beside the text, and names of files are no words of it. */
static void write_facts(const struct logs *logs, uint32_t number,
                        const struct tutti_measurements_table *table,
                        const struct tutti_case *first, FILE *out)
{
    const struct tutti_topo *topo = logs->topo;
    uint32_t hosts = topo->host_count > 0 ? topo->host_count : 1;
    const char *version = logs->nccl.asked != NULL ? logs->nccl.asked : table->version;

    fprintf(out,
            "table log-%" PRIu32 "\nsite logs\nplatform logs\nmachine log\nranks %" PRIu32
            "\nnodes %" PRIu32 "\ngpus %" PRIu32 "\nlibrary %s\n",
            number + 1, topo->rank_count, hosts, topo->rank_count / hosts,
            table->is_rccl ? "rccl" : "nccl");
    if (version[0] != '\0')
        fprintf(out, "version %s\n", version);
    if (table->process_ranks > 0)
        fprintf(out, "launch %s\n", table->process_ranks > 1 ? "one" : "each");
    write_env(logs->nccl.text, out);
    fprintf(out,
            "collective %s\ndtype %s\nop %s\niterations %" PRIu32
            "\nquality good\nsource log\nrows\n",
            tutti_collective_name(table->collective), tutti_dtype_name(first->params.dtype),
            tutti_op_name(first->params.op), table->iteration_count);
}

static int compare_cases(const void *left, const void *right)
{
    const struct tutti_case *a = left;
    const struct tutti_case *b = right;

    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* Sizes rise, and each stands once: of several the shortest time. */
static void write_rows(struct tutti_case *cases, size_t count, FILE *out)
{
    qsort(cases, count, sizeof(cases[0]), compare_cases);
    for (size_t i = 0; i < count;) {
        double us = cases[i].measured_us;
        size_t end = i + 1;

        for (; end < count && cases[end].bytes == cases[i].bytes; end++)
            us = cases[end].measured_us < us ? cases[end].measured_us : us;
        fprintf(out, "%" PRIu64 " %.17g\n", cases[i].bytes, us);
        i = end;
    }
    fputs("end\n", out);
}

static int write_text(struct logs *logs, char **ret, size_t *ret_bytes, struct tutti_err *err)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_bytes);
    size_t at = 0;
    bool failed;

    if (out == NULL)
        return tutti_nomem(err);
    fputs("tutti measured 1\n", out);
    for (uint32_t i = 0; i < logs->measurements.table_count; i++) {
        const struct tutti_measurements_table *table = &logs->measurements.tables[i];

        if (table->taken_count == 0)
            continue;
        write_facts(logs, i, table, &logs->cases.cases[at], out);
        write_rows(logs->cases.cases + at, table->taken_count, out);
        at += table->taken_count;
    }
    failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return tutti_nomem(err);
    }
    *ret = text;
    return 0;
}

static int read_logs(const struct tutti_args *args, struct tutti_measured *ret,
                     struct tutti_topo **ret_machine, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    struct logs logs = {.args = args};
    char *text = NULL;
    size_t bytes = 0;
    int status = tutti_nccl_options_read(args, true, &logs.nccl, sink, err);

    if (status == 0)
        status = tutti_logs_read(args, &logs.files, err);
    if (status == 0)
        status = find_machine(&logs, err);
    if (status == 0)
        status = read_all(&logs, err);
    if (status == 0)
        status = write_text(&logs, &text, &bytes, err);
    if (status == 0)
        status = tutti_measured_parse("the logs", text, bytes, ret, err);
    if (status == 0) {
        *ret_machine = logs.topo;
        logs.topo = NULL;
    }
    free(text);
    tutti_nccl_options_done(&logs.nccl);
    tutti_cases_done(&logs.cases);
    tutti_measurements_done(&logs.measurements);
    tutti_logs_done(&logs.files);
    tutti_topo_free(logs.topo);
    return status;
}

/* Who names a machine here, or mistypes a file, has to hear of the other way, too. */
static int load(const char *path, struct tutti_measured *ret, struct tutti_err *err)
{
    struct tutti_topo *machine = NULL;
    int status = tutti_measured_load(path, ret, err);

    if (status == 0 || access(path, F_OK) == 0)
        return status;
    if (tutti_topo_from_spec(path, &machine, NULL) < 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "there is no folder and no file '%s' (tables of measurements, as in "
                          "traces/measured, or SPEC --log FILE)",
                          path);
    tutti_topo_free(machine);
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--log' is missing: nothing is measured of '%s' (--log FILE; or a "
                      "folder or file of tables in place of the machine)",
                      path);
}

int tutti_fit_tables_read(const struct tutti_args *args, struct tutti_measured *ret,
                          struct tutti_topo **ret_machine, struct tutti_sink *sink,
                          struct tutti_err *err)
{
    if (tutti_args_given(args, "log"))
        return read_logs(args, ret, ret_machine, sink, err);
    return load(tutti_args_operand(args, 0), ret, err);
}
