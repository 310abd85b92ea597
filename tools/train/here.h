/* What the pieces of a training step take on this machine: measured in short runs (train -B
 * --calibrate FILE), and read back to predict the steps of others (train -B --calib FILE).
 *
 * The text, one line each, # begins a comment; a file may be added to:
 *   tutti pieces 1
 *   backend WORD
 *   layer MODEL LAYER forward|backward EXAMPLES SECONDS   a micro-batch of a rank
 *   input MODEL EXAMPLES SECONDS                          likewise: its examples
 *   update OPTIMIZER ELEMENTS SECONDS                     of a rank's weights
 *   call MESSAGES BYTES SECONDS                           a collective: messages one after the
 *                                                         other, and what a rank sends in all
 *   step none|zero|zero3 SECONDS                          what a step takes beside all this:
 *                                                         wake-ups of threads, waiting for ranks
 *                                                         that are late by chance; by how much of
 *                                                         their states ranks share
 *
 * A layer takes c0 + c1 * examples, an update c * elements, a collective c0 * messages + c1 *
 * bytes, fitted to all lines of the kind by least squares of relative errors; of one number of
 * examples alone c0 is 0. Predicted, calls under way slow down the work beside them by the part of
 * them that moves bytes, for the ranks' own processors do that. */
#ifndef TUTTI_TOOLS_TRAIN_HERE_H
#define TUTTI_TOOLS_TRAIN_HERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/train/pieces.h"

struct tutti_err;
struct tutti_schedule;
struct tutti_sink;
struct tutti_train_real;

#define TUTTI_TRAIN_OPTION_CALIBRATE                                                            \
    {                                                                                           \
        .name = "calibrate", .type = TUTTI_OPTION_TEXT, .value = "FILE",                        \
        .help = "-B: add to FILE what layers, input, optimizer and collectives took in these "  \
                "steps; --calib FILE then predicts steps of other batches and strategies (two " \
                "batch sizes tell what a layer takes whatever the batch)"                       \
    }

enum { TUTTI_TRAIN_HERE_NAME_BYTES = 64 };

struct tutti_train_here_line {
    char kind[16]; /* "layer", ... */
    char name[TUTTI_TRAIN_HERE_NAME_BYTES];
    char layer[TUTTI_TRAIN_HERE_NAME_BYTES];
    bool backward;
    double x; /* examples, elements, messages */
    double bytes;
    double s;
};

struct tutti_train_here {
    struct tutti_train_here_line *lines;
    size_t count;
};

/* -TUTTI_EINVAL: not such a text, by line, or another backend's. */
int tutti_train_here_parse(const char *name, const char *text, const char *backend,
                           struct tutti_train_here *ret, struct tutti_err *err);
void tutti_train_here_done(struct tutti_train_here *here);

/* A step of a schedule, that of real->trainer. -TUTTI_EINVAL for what was not measured. */
int tutti_train_here_predict(const struct tutti_train_here *here,
                             const struct tutti_train_real *real, struct tutti_train_parts *ret,
                             struct tutti_err *err);
/* The word of a line "step". */
const char *tutti_train_here_sharing(const struct tutti_train_real *real);
/* Examples of a micro-batch of a rank, and weights that it updates. */
double tutti_train_here_examples(const struct tutti_train_real *real);
double tutti_train_here_elements(const struct tutti_train_real *real);

/* Messages that rank 0 receives one after the other in a collective, and the bytes that it sends.
 */
void tutti_train_here_call(const struct tutti_schedule *callee, double *ret_messages,
                           double *ret_bytes);

/* ---- measuring ---- */

struct tutti_train_here_series {
    char key[3 * TUTTI_TRAIN_HERE_NAME_BYTES]; /* a line of the text but for the seconds */
    double *s;                                 /* [count] steps */
    size_t count;
    double sum_s; /* of the step that is being added */
    double parts;
    double times; /* a rank does it in a step */
};

struct tutti_train_here_notes {
    struct tutti_train_here_series *series;
    size_t count;
    size_t room;
    double *steps_s;
    size_t step_count;
    double *layers_s; /* [step]: all layers of a rank */
    size_t layers_count;
};

/* Adds a step of a trainer, whose pieces these are. */
int tutti_train_here_add(struct tutti_train_here_notes *notes, const struct tutti_train_real *real,
                         const struct tutti_train_pieces *pieces, tutti_ps step_ps,
                         struct tutti_err *err);
/* Medians, to the end of the file. */
int tutti_train_here_write(struct tutti_train_here_notes *notes, struct tutti_train_real *real,
                           const char *path, struct tutti_sink *sink, struct tutti_err *err);
void tutti_train_here_notes_done(struct tutti_train_here_notes *notes);

#endif
