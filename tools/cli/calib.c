/* The option --calib; see calib.h. */
#include "tools/cli/calib.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/files.h"

#define NCCLS_OWN "NCCL's own figures, for any hardware"

static int read_file(const char *path, struct tutti_calib **ret, struct tutti_err *err)
{
    char name[TUTTI_CALIB_NAME_BYTES];
    struct tutti_calib *calib = NULL;
    char *text = NULL;
    size_t bytes = 0;
    int status = tutti_file_read(path, &text, &bytes, err);

    if (status == 0)
        status = tutti_calib_parse(path, text, bytes, &calib, err);
    free(text);
    if (status < 0)
        return status;
    if (tutti_calib_at(calib, 0, name) == NULL) { /* what could not be written, say */
        tutti_calib_free(calib);
        return tutti_fail(err, TUTTI_EINVAL, "%s: no value in it (as 'tutti calibrate' writes)",
                          path);
    }
    *ret = calib;
    return 0;
}

static bool differs(const struct tutti_calibrated *made)
{
    size_t count;
    const struct tutti_protocol *protocols = tutti_protocols(&count);
    bool same = true;

    for (size_t i = 0; i < count; i++)
        same = same && tutti_protocol_same(&made->protocols[i], &protocols[i]);
    return !same;
}

int tutti_calib_option_read(const struct tutti_args *args, struct tutti_calib_option *ret,
                            struct tutti_err *err)
{
    struct tutti_calib_option option = {.given = tutti_args_given(args, "calib")};
    const char *from = tutti_args_text(args, "calib"); /* NULL: no standard, as with `run` */
    bool fitted = from == NULL || strcmp(from, "none") != 0;
    bool file = fitted && from != NULL && strcmp(from, "builtin") != 0;
    int status = 0;

    if (file)
        status = read_file(from, &option.layers[option.layer_count], err);
    option.layer_count += file && status == 0;
    if (status == 0 && fitted)
        status = tutti_calib_builtin(&option.layers[option.layer_count], err);
    option.layer_count += fitted && status == 0;
    if (status == 0)
        status = tutti_calib_nccl(&option.layers[option.layer_count], err);
    option.layer_count += status == 0;
    if (status < 0) {
        tutti_calib_option_done(&option);
        return tutti_wrap(err, status, "option '--calib'");
    }
    *ret = option;
    return 0;
}

void tutti_calib_option_done(struct tutti_calib_option *option)
{
    for (size_t i = 0; i < option->layer_count; i++)
        tutti_calib_free(option->layers[i]);
    *option = (struct tutti_calib_option){.given = false};
}

struct tutti_calib_choice tutti_calib_option_for(const struct tutti_calib_option *option,
                                                 const struct tutti_topo *topo)
{
    struct tutti_calib_choice choice = {.is_told = option->given};
    struct tutti_calib_machine machine = tutti_calib_machine_of(topo);

    choice.made = tutti_calib_compose((const struct tutti_calib *const *)option->layers,
                                      option->layer_count, &machine);
    if (option->layer_count == 1)
        (void)snprintf(choice.made.text, sizeof(choice.made.text), "%s", NCCLS_OWN);
    choice.is_told = choice.is_told || differs(&choice.made);
    return choice;
}

const char *tutti_calib_option_title(const struct tutti_calib_option *option)
{
    const char *title = tutti_calib_title(option->layers[0]);

    return option->layer_count == 1 ? NCCLS_OWN
           : *title == '\0'         ? "a calibration without a title"
                                    : title;
}

void tutti_calib_option_print(const struct tutti_calib_option *option, FILE *out)
{
    fprintf(out, "# costs:     %s%s\n", tutti_calib_option_title(option),
            option->layer_count == TUTTI_CALIB_LAYERS_MAX ? ", over what this build has" : "");
}

int tutti_calib_choose(const struct tutti_args *args, const struct tutti_topo *topo,
                       const char *protocol, struct tutti_calib_choice *ret, struct tutti_err *err)
{
    struct tutti_calib_option option;
    int status = tutti_calib_option_read(args, &option, err);

    if (status < 0)
        return status;
    *ret = tutti_calib_option_for(&option, topo);
    if (!option.given && strcmp(protocol, "none") == 0)
        ret->is_told = false;
    tutti_calib_option_done(&option);
    return 0;
}

void tutti_calib_print_choice(const struct tutti_calib_choice *choice, FILE *out)
{
    if (choice->is_told)
        fprintf(out, "# costs:    %s\n", choice->made.text);
}

void tutti_calib_json_choice(const struct tutti_calib_choice *choice, struct tutti_json *json)
{
    if (choice->is_told)
        tutti_json_text(json, "costs", choice->made.text);
}
