/* Reading nccl-tests logs: goes through the lines, gathers facts and rows, and cuts them into
 * tables. */
#include "traces/nccl_tests.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "traces/nccl_tests/facts.h"
#include "traces/nccl_tests/line.h"
#include "traces/nccl_tests/row.h"

/* A table as far as it has been read. */
struct partial {
    struct tutti_log_facts facts;
    size_t row_first;
    size_t row_count;
};

/* Growing lists; rows and devices of all tables lie one behind the other. */
struct reader {
    struct tutti_nccl_row *rows;
    size_t row_count;
    size_t row_capacity;
    struct partial *drafts; /* the last one is being read */
    size_t partial_count;
    size_t partial_capacity;
    struct tutti_log_place *places; /* of the devices listed */
    size_t place_count;
    size_t place_capacity;
    struct tutti_log_heading heading;
    int next_test; /* named behind the rows of the current table: the next table's */
    uint32_t line_number;
    bool row_open;                  /* the last line was a row that lacked words at its end */
    struct tutti_log_line open;     /* that line */
    struct tutti_log_line line;     /* the current one */
    struct tutti_log_line previous; /* where `open` keeps the words it got from further lines */
};

/* Makes room for one more in a list of `size`-byte things. */
static int grow(void **list, size_t count, size_t *capacity, size_t size)
{
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *larger;

    if (count < *capacity)
        return 0;
    if (wanted > SIZE_MAX / 2 / size)
        return -TUTTI_ENOMEM;
    larger = realloc(*list, wanted * size);
    if (larger == NULL)
        return -TUTTI_ENOMEM;
    *list = larger;
    *capacity = wanted;
    return 0;
}

static struct partial *current(struct reader *reader)
{
    assert(reader->partial_count > 0);
    return &reader->drafts[reader->partial_count - 1];
}

/* Opens a table behind the current one if that has rows; `same_run`: only the heading is new. */
static int open_table(struct reader *reader, bool same_run)
{
    struct partial partial = {.facts = {.test = LOG_TEST_UNKNOWN, .average_busbw_GBps = NAN}};
    void *list = reader->drafts;

    if (reader->partial_count > 0) {
        struct partial *last = current(reader);
        if (last->row_count == 0)
            return 0;
        if (same_run) {
            partial.facts = last->facts;
            partial.facts.average_busbw_GBps = NAN;
        } else {
            partial.facts.place_first = reader->place_count;
            memcpy(partial.facts.library, last->facts.library, sizeof(partial.facts.library));
            memcpy(partial.facts.version, last->facts.version, sizeof(partial.facts.version));
        }
    }
    if (reader->next_test != LOG_TEST_UNKNOWN)
        partial.facts.test = reader->next_test;
    reader->next_test = LOG_TEST_UNKNOWN;
    partial.row_first = reader->row_count;
    if (grow(&list, reader->partial_count, &reader->partial_capacity, sizeof(partial)) < 0)
        return -TUTTI_ENOMEM;
    reader->drafts = list;
    reader->drafts[reader->partial_count++] = partial;
    return 0;
}

static int add_row(struct reader *reader, const struct tutti_nccl_row *row)
{
    void *list = reader->rows;

    if (grow(&list, reader->row_count, &reader->row_capacity, sizeof(*row)) < 0)
        return -TUTTI_ENOMEM;
    reader->rows = list;
    reader->rows[reader->row_count++] = *row;
    current(reader)->row_count++;
    return 0;
}

static int add_place(struct reader *reader, struct tutti_log_place place)
{
    void *list = reader->places;

    if (grow(&list, reader->place_count, &reader->place_capacity, sizeof(place)) < 0)
        return -TUTTI_ENOMEM;
    reader->places = list;
    reader->places[reader->place_count++] = place;
    current(reader)->facts.place_count++;
    return 0;
}

static int take_fact(struct reader *reader)
{
    const char *text = reader->line.text;
    struct tutti_log_place place;
    int test;
    enum tutti_log_fact kind = tutti_log_fact_kind(text, &test);

    if (kind == LOG_FACT_NONE)
        return 0;
    /* A program named behind rows is the next one (a script's loop, a prompt), never this one. */
    if (kind == LOG_FACT_TEST && current(reader)->row_count > 0) {
        reader->next_test = test;
        return 0;
    }
    if (kind == LOG_FACT_VERSION && current(reader)->facts.library[0] != '\0' &&
        current(reader)->row_count > 0)
        return 0;
    if (kind == LOG_FACT_RUN && open_table(reader, false) < 0)
        return -TUTTI_ENOMEM;
    tutti_log_fact_read(text, &current(reader)->facts, &place);
    return place.host == 0 ? 0 : add_place(reader, place);
}

static bool all_figures(const struct tutti_log_line *line)
{
    double value;

    for (uint32_t i = 0; i < line->word_count; i++) {
        if (!tutti_log_read_double(line->word[i], &value))
            return false;
    }
    return line->word_count > 0;
}

/* Some logs were wrapped when they were pasted: a line of figures alone completes the row before
 * it. Returns 1 if it did. */
static int continue_row(struct reader *reader)
{
    struct tutti_nccl_row row;
    struct tutti_log_line *more = &reader->previous;

    if (!reader->row_open || !reader->heading.has_type || !all_figures(&reader->line))
        return 0;
    /* The words point into their own line, which must stay: keep a copy of it. */
    memcpy(more->text, reader->line.text, sizeof(more->text));
    tutti_log_line_cut(more, reader->heading.commas);
    tutti_log_line_join(&reader->open, more);
    if (tutti_log_row_read(&reader->open, &reader->heading, &row) != LOG_ROW_NONE) {
        row.line = reader->rows[reader->row_count - 1].line;
        reader->rows[reader->row_count - 1] = row;
    }
    /* Two lines make a row at most. */
    reader->row_open = false;
    return 1;
}

/* Reads a line as part of the table; returns 1 if it was one. */
static int take_row(struct reader *reader, bool cut_off)
{
    struct tutti_nccl_row row;
    enum tutti_log_row_status status;

    tutti_log_line_cut(&reader->line, reader->heading.commas);
    if (continue_row(reader) == 1)
        return 1;
    status = tutti_log_row_read(&reader->line, &reader->heading, &row);
    if (status == LOG_ROW_CUT && cut_off) {
        /* The file ends within this row: its last word may be half a number. */
        reader->line.word_count--;
        status = tutti_log_row_read(&reader->line, &reader->heading, &row);
    }
    reader->row_open = status == LOG_ROW_CUT;
    if (status == LOG_ROW_NONE)
        return 0;
    if (reader->row_open) {
        memcpy(reader->open.text, reader->line.text, sizeof(reader->open.text));
        tutti_log_line_cut(&reader->open, reader->heading.commas);
    }
    row.line = reader->line_number;
    return add_row(reader, &row) < 0 ? -TUTTI_ENOMEM : 1;
}

static int take_line(struct reader *reader, const char *text, size_t bytes, bool cut_off)
{
    int status;

    reader->line_number++;
    tutti_log_line_clean(text, bytes, &reader->line);
    status = take_row(reader, cut_off);
    if (status != 0)
        return status < 0 ? status : 0;
    if (tutti_log_heading_read(&reader->line, &reader->heading))
        return open_table(reader, true);
    return take_fact(reader);
}

static int take_text(struct reader *reader, const char *text, size_t bytes)
{
    int status = open_table(reader, false);

    while (bytes > 0 && status == 0) {
        const char *newline = memchr(text, '\n', bytes);
        size_t line_bytes = newline == NULL ? bytes : (size_t)(newline - text);
        status = take_line(reader, text, line_bytes, newline == NULL);
        text += line_bytes;
        bytes -= line_bytes;
        if (newline != NULL) {
            text++;
            bytes--;
        }
    }
    return status;
}

static int compare_hosts(const void *left, const void *right)
{
    const struct tutti_log_place *a = left;
    const struct tutti_log_place *b = right;

    return a->host < b->host ? -1 : a->host > b->host;
}

static int compare_processes(const void *left, const void *right)
{
    const struct tutti_log_place *a = left;
    const struct tutti_log_place *b = right;

    return a->process < b->process ? -1 : a->process > b->process;
}

/* Sorts the places of one run and counts the different ones. */
static uint32_t count_different(struct tutti_log_place *places, size_t count,
                                int (*compare)(const void *, const void *))
{
    uint32_t different = 0;

    if (count == 0)
        return 0;
    qsort(places, count, sizeof(*places), compare);
    for (size_t i = 0; i < count; i++)
        different += i == 0 || compare(&places[i], &places[i - 1]) != 0;
    return different;
}

/* Whether each host has as many of the places, which are sorted by hosts. */
static bool are_even(const struct tutti_log_place *places, size_t count, uint32_t host_count)
{
    size_t each = count / host_count;

    for (size_t i = 0; i < count; i++) {
        if (places[i].host != places[i / each * each].host)
            return false;
    }
    return count % host_count == 0;
}

/* What is stated counts unless the figures prove it wrong: device lists get cut when logs are
 * pasted, and the library's lines may belong to another run. The nThread line is no help: it counts
 * the GPUs of one process. */
static uint32_t count_ranks(const struct tutti_nccl_table *table,
                            const struct tutti_log_facts *facts)
{
    uint32_t stated = facts->device_rank_max > 0 ? facts->device_rank_max : facts->info_rank_count;
    uint32_t least;
    uint32_t most;

    if (!table->has_collective ||
        !tutti_log_guess_ranks(table->collective, table->rows, table->row_count, &least, &most))
        return stated;
    if (stated >= least && stated <= most)
        return stated;
    return least == most ? least : 0;
}

static int finish_table(struct reader *reader, const struct partial *partial,
                        struct tutti_arena *arena, struct tutti_nccl_table *table)
{
    const struct tutti_log_facts *facts = &partial->facts;
    int test = facts->test;

    table->rows = tutti_arena_take(arena, partial->row_count, sizeof(*table->rows));
    if (table->rows == NULL)
        return -TUTTI_ENOMEM;
    memcpy(table->rows, reader->rows + partial->row_first,
           partial->row_count * sizeof(*table->rows));
    table->row_count = partial->row_count;
    memcpy(table->version, facts->version, sizeof(table->version));
    memcpy(table->library, facts->library, sizeof(table->library));
    memcpy(table->device, facts->device, sizeof(table->device));
    table->network = facts->network;
    table->uneven = facts->devices_differ;
    table->iteration_count = facts->iteration_count;
    table->average_busbw_GBps = facts->average_busbw_GBps;
    if (test == LOG_TEST_UNKNOWN)
        test = tutti_log_guess_test(table->rows, table->row_count);
    table->has_collective = test >= 0;
    table->collective = test >= 0 ? (enum tutti_collective)test : TUTTI_CUSTOM;
    table->rank_count = count_ranks(table, facts);
    /* A list that leaves out devices may leave out hosts. */
    if (table->rank_count > 0 && facts->place_count >= table->rank_count) {
        struct tutti_log_place *places = reader->places + facts->place_first;

        table->host_count = count_different(places, facts->place_count, compare_hosts);
        table->uneven |= !are_even(places, facts->place_count, table->host_count);
        table->process_count = count_different(places, facts->place_count, compare_processes);
    }
    return 0;
}

static int finish(struct reader *reader, struct tutti_nccl_log *ret)
{
    struct tutti_nccl_log log = {.arena = tutti_arena_new()};
    int status = 0;

    if (log.arena == NULL)
        return -TUTTI_ENOMEM;
    log.tables = tutti_arena_take(log.arena, reader->partial_count, sizeof(*log.tables));
    if (log.tables == NULL)
        status = -TUTTI_ENOMEM;
    for (size_t i = 0; i < reader->partial_count && status == 0; i++) {
        if (reader->drafts[i].row_count > 0)
            status =
                finish_table(reader, &reader->drafts[i], log.arena, &log.tables[log.table_count++]);
    }
    if (status < 0) {
        tutti_arena_free(log.arena);
        return status;
    }
    *ret = log;
    return 0;
}

int tutti_nccl_tests_parse(const char *name, const char *text, size_t bytes,
                           struct tutti_nccl_log *ret, struct tutti_err *err)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    int status = -TUTTI_ENOMEM;

    if (reader != NULL) {
        reader->next_test = LOG_TEST_UNKNOWN;
        status = take_text(reader, text, bytes);
    }
    if (status == 0 && reader->row_count == 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "%s: no nccl-tests table (looked for rows like '  8  2  float  sum "
                            "...'; CSV names its columns first, size_bytes and time_us)",
                            name);
    else if (status == 0)
        status = finish(reader, ret);
    if (status == -TUTTI_ENOMEM)
        tutti_nomem(err);
    if (reader != NULL) {
        free(reader->rows);
        free(reader->drafts);
        free(reader->places);
    }
    free(reader);
    return status;
}

void tutti_nccl_log_free(struct tutti_nccl_log *log)
{
    if (log == NULL)
        return;
    tutti_arena_free(log->arena);
    *log = (struct tutti_nccl_log){0};
}
