/* The option --calib; see calib.h. */
#include "tools/calib.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/files.h"

static int read_file(const char *path, struct tutti_calib **ret, struct tutti_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = tutti_file_read(path, &text, &bytes, err);

    if (status == 0)
        status = tutti_calib_parse(path, text, bytes, ret, err);
    free(text);
    return status;
}

/* NCCL's own figures, whatever the machine. */
static struct tutti_calibrated plain(void)
{
    struct tutti_calibrated made = {.text = "NCCL's own figures, for any hardware"};
    size_t count;
    const struct tutti_protocol *protocols = tutti_protocols(&count);

    for (size_t i = 0; i < count; i++)
        made.protocols[i] = protocols[i];
    return made;
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
    bool builtin = tutti_args_is(args, "calib", "builtin");
    int status = 0;

    if (!tutti_args_is(args, "calib", "none"))
        status = tutti_calib_builtin(builtin ? &option.calib : &option.base, err);
    if (status == 0 && option.base != NULL)
        status = read_file(tutti_args_text(args, "calib"), &option.calib, err);
    if (status < 0) {
        tutti_calib_option_done(&option);
        return tutti_wrap(err, status, "option '--calib'");
    }
    *ret = option;
    return 0;
}

void tutti_calib_option_done(struct tutti_calib_option *option)
{
    tutti_calib_free(option->calib);
    tutti_calib_free(option->base);
    *option = (struct tutti_calib_option){.given = false};
}

struct tutti_calib_choice tutti_calib_option_for(const struct tutti_calib_option *option,
                                                 const struct tutti_topo *topo)
{
    struct tutti_calib_choice choice = {.is_told = option->given};
    struct tutti_calib_machine machine;

    if (option->calib == NULL) {
        choice.made = plain();
        return choice;
    }
    machine = tutti_calib_machine_of(topo);
    choice.made = tutti_calib_compose(option->calib, option->base, &machine);
    choice.is_told = choice.is_told || differs(&choice.made);
    return choice;
}

void tutti_calib_option_print(const struct tutti_calib_option *option, FILE *out)
{
    const char *title = option->calib != NULL ? tutti_calib_title(option->calib) : "";

    if (!option->given)
        return;
    fprintf(out, "# costs:     %s%s%s\n", title,
            option->calib == NULL ? "NCCL's own figures, for any hardware"
            : *title == '\0'      ? "a calibration without a title"
                                  : "",
            option->base != NULL ? ", over what this build has" : "");
}

int tutti_calib_choose(const struct tutti_args *args, const struct tutti_topo *topo,
                       struct tutti_calib_choice *ret, struct tutti_err *err)
{
    struct tutti_calib_option option;
    int status = tutti_calib_option_read(args, &option, err);

    if (status < 0)
        return status;
    *ret = tutti_calib_option_for(&option, topo);
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
