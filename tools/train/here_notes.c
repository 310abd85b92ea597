/* Measures what the pieces of real steps take; see here.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/sink.h"
#include "tools/train/here.h"
#include "tools/train/real.h"

enum { WARM_UP = 3, SHORT = 8 }; /* the first steps do not count, where there are enough of them */

static struct tutti_train_here_series *series_of(struct tutti_train_here_notes *notes,
                                                 const char *key)
{
    struct tutti_train_here_series *grown;

    for (size_t i = 0; i < notes->count; i++)
        if (strcmp(notes->series[i].key, key) == 0)
            return &notes->series[i];
    if (notes->count == notes->room) {
        notes->room = notes->room > 0 ? 2 * notes->room : 32;
        grown = realloc(notes->series, notes->room * sizeof(*grown));
        if (grown == NULL)
            return NULL;
        notes->series = grown;
    }
    notes->series[notes->count] = (struct tutti_train_here_series){.count = 0};
    (void)snprintf(notes->series[notes->count].key, sizeof(grown->key), "%s", key);
    return &notes->series[notes->count++];
}

static bool push(double **values, size_t *count, double value)
{
    double *grown = realloc(*values, (*count + 1) * sizeof(*grown));

    if (grown == NULL)
        return false;
    *values = grown;
    grown[(*count)++] = value;
    return true;
}

/* What the piece is added to; update: all of a rank's of one step. */
static void key_of(const struct tutti_train_real *real, const struct tutti_train_pieces *pieces,
                   const struct tutti_train_real_piece *piece, char *key, size_t key_bytes)
{
    const struct tutti_schedule *schedule = pieces->schedule;
    const struct tutti_layer *layer;
    bool backward = false;
    double messages;
    double bytes;

    if (piece->step.kind == TUTTI_CALL) {
        tutti_train_here_call(schedule->callees[piece->step.peer], &messages, &bytes);
        (void)snprintf(key, key_bytes, "call %.0f %.0f", messages, bytes);
        return;
    }
    switch (tutti_train_work_class(schedule, piece->step.peer - 1)) {
    case TUTTI_TRAIN_WORK_LAYER:
        layer = tutti_train_work_layer(real->model, schedule->work[piece->step.peer - 1].name,
                                       &backward);
        (void)snprintf(key, key_bytes, "layer %.63s %.63s %s %.6g", real->model->name,
                       layer != NULL ? layer->name : "none", backward ? "backward" : "forward",
                       tutti_train_here_examples(real));
        return;
    case TUTTI_TRAIN_WORK_INPUT:
        (void)snprintf(key, key_bytes, "input %.63s %.6g", real->model->name,
                       tutti_train_here_examples(real));
        return;
    default:
        (void)snprintf(key, key_bytes, "update %.63s %.0f", real->optimizer,
                       tutti_train_here_elements(real));
    }
}

/* Of a CALL the rank that came last tells what it takes: the others have waited for that. */
static double seconds_of(const struct tutti_train_pieces *pieces, size_t at)
{
    const struct tutti_train_real_piece *piece = &pieces->pieces[at];
    tutti_ps least_ps = piece->end_ps - piece->begin_ps;

    for (size_t i = 0; i < pieces->count && piece->step.kind == TUTTI_CALL; i++) {
        const struct tutti_train_real_piece *other = &pieces->pieces[i];

        if (other->lane == piece->lane && other->index == piece->index &&
            other->end_ps - other->begin_ps < least_ps)
            least_ps = other->end_ps - other->begin_ps;
    }
    return (double)least_ps / (double)TUTTI_PS_PER_S;
}

int tutti_train_here_add(struct tutti_train_here_notes *notes, const struct tutti_train_real *real,
                         const struct tutti_train_pieces *pieces, tutti_ps step_ps,
                         struct tutti_err *err)
{
    bool done = push(&notes->steps_s, &notes->step_count, (double)step_ps / (double)TUTTI_PS_PER_S);
    double layers_s = 0;

    for (size_t i = 0; i < pieces->count && done; i++) {
        char key[3 * TUTTI_TRAIN_HERE_NAME_BYTES];
        struct tutti_train_here_series *series;

        key_of(real, pieces, &pieces->pieces[i], key, sizeof(key));
        series = series_of(notes, key);
        done = series != NULL;
        if (!done)
            break;
        series->sum_s += seconds_of(pieces, i);
        series->parts++;
    }
    for (size_t i = 0; i < notes->count && done; i++) {
        struct tutti_train_here_series *series = &notes->series[i];
        const bool update = strncmp(series->key, "update", 6) == 0;

        if (strncmp(series->key, "layer", 5) == 0)
            layers_s += series->sum_s / real->run.rank_count;
        series->times = series->parts / real->run.rank_count;
        if (series->parts > 0)
            done = push(&series->s, &series->count,
                        series->sum_s / (update ? real->run.rank_count : series->parts));
        series->sum_s = series->parts = 0;
    }
    done = done && push(&notes->layers_s, &notes->layers_count, layers_s);
    return done ? 0 : tutti_nomem(err);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    const size_t skip = count > SHORT ? WARM_UP : 0;

    if (count == 0)
        return 0;
    qsort(values + skip, count - skip, sizeof(*values), by_value);
    return values[skip + (count - skip) / 2];
}

static bool append(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool append(char **text, const char *format, ...)
{
    const size_t length = *text == NULL ? 0 : strlen(*text);
    char line[4 * TUTTI_TRAIN_HERE_NAME_BYTES];
    va_list args;
    char *grown;

    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    grown = realloc(*text, length + strlen(line) + 1);
    if (grown == NULL)
        return false;
    memcpy(grown + length, line, strlen(line) + 1);
    *text = grown;
    return true;
}

/* On a busy machine the median step has some layer that took longer than its own median: so much
 * longer all of them are taken to be. */
static double layers_over_medians(struct tutti_train_here_notes *notes)
{
    double sum = 0;

    for (size_t i = 0; i < notes->count; i++)
        if (strncmp(notes->series[i].key, "layer", 5) == 0)
            sum += notes->series[i].times * median(notes->series[i].s, notes->series[i].count);
    return sum > 0 ? median(notes->layers_s, notes->layers_count) / sum : 1;
}

/* What the step took beside its pieces: what it takes by them is predicted. */
static int find_rest(const char *text, double step_s, const struct tutti_train_real *real,
                     double *ret_s, struct tutti_err *err)
{
    struct tutti_train_here here = {.count = 0};
    struct tutti_train_parts parts = {.step_s = 0};
    int status = tutti_train_here_parse("steps", text, real->run.backend->name, &here, err);

    if (status == 0)
        status = tutti_train_here_predict(&here, real, &parts, err);
    tutti_train_here_done(&here);
    *ret_s = fmax(step_s - parts.step_s, 0);
    return status;
}

/* The file as it is, or its head. */
static int read_before(const char *path, const char *head, char **ret, struct tutti_err *err)
{
    size_t bytes;
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return append(ret, "%s", head) ? 0 : tutti_nomem(err);
    (void)fclose(file);
    return tutti_file_read(path, ret, &bytes, err);
}

int tutti_train_here_write(struct tutti_train_here_notes *notes, struct tutti_train_real *real,
                           const char *path, struct tutti_sink *sink, struct tutti_err *err)
{
    const double step_s = median(notes->steps_s, notes->step_count);
    const double longer = layers_over_medians(notes);
    char head[64];
    char *all = NULL;
    char *text = NULL;
    double rest_s = 0;
    bool done;
    int status;

    (void)snprintf(head, sizeof(head), "tutti pieces 1\nbackend %s\n", real->run.backend->name);
    done = append(&text, "%s# %s by %s, %u ranks\n", head, real->model->name, real->strategy.name,
                  real->run.rank_count);
    for (size_t i = 0; i < notes->count && done; i++)
        done = append(&text, "%s %.6g\n", notes->series[i].key,
                      (strncmp(notes->series[i].key, "layer", 5) == 0 ? longer : 1) *
                          median(notes->series[i].s, notes->series[i].count));
    status = done ? find_rest(text, step_s, real, &rest_s, err) : tutti_nomem(err);
    if (status == 0 && !append(&text, "step %s %.6g\n", tutti_train_here_sharing(real), rest_s))
        status = tutti_nomem(err);
    if (status == 0)
        status = read_before(path, head, &all, err);
    if (status == 0 && !append(&all, "%s", "")) /* what is there may be long: no line of it */
        status = tutti_nomem(err);
    if (status == 0) {
        char *grown = realloc(all, strlen(all) + strlen(text) + 1);

        if (grown == NULL)
            status = tutti_nomem(err);
        else
            all = grown;
    }
    if (status == 0) {
        memcpy(all + strlen(all), text + strlen(head), strlen(text + strlen(head)) + 1);
        status = tutti_file_write(path, all, strlen(all), sink, err);
    }
    free(text);
    free(all);
    return status < 0 ? tutti_wrap(err, status, "option '--calibrate'") : 0;
}

void tutti_train_here_notes_done(struct tutti_train_here_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->series[i].s);
    free(notes->series);
    free(notes->steps_s);
    free(notes->layers_s);
    *notes = (struct tutti_train_here_notes){.count = 0};
}
