/* tutti launch kubernetes: the manifests of a training on Kubernetes. */
#include <string.h>

#include "tools/commands.h"
#include "tools/launch/manifest.h"
#include "tools/launch/tasks.h"
#include "tools/launch/words.h"
#include "tools/options.h"

/* What --volume says, taken apart. */
struct volume {
    char claim[TUTTI_MANIFEST_LABEL_MAX + 1];
    const char *mount;
};

/* A label of RFC 1123; names of services begin with a letter (RFC 1035). */
static bool is_label(const char *text, size_t bytes, bool begins_with_letter)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    static const char all[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

    if (bytes == 0 || bytes > TUTTI_MANIFEST_LABEL_MAX || strspn(text, all) < bytes)
        return false;
    return text[0] != '-' && text[bytes - 1] != '-' &&
           (!begins_with_letter || strchr(letters, text[0]) != NULL);
}

static int check_label(const struct tutti_args *args, const char *option, struct tutti_err *err)
{
    const char *text = tutti_args_text(args, option);

    if (text == NULL || is_label(text, strlen(text), false))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--%s': '%.80s' (up to %d of a-z, 0-9 and '-', no '-' at its ends)",
                      option, text, TUTTI_MANIFEST_LABEL_MAX);
}

static int check_name(const char *name, struct tutti_err *err)
{
    if (is_label(name, strlen(name), true) && strlen(name) <= TUTTI_MANIFEST_NAME_MAX)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--name': '%.80s' (up to %d of a-z, 0-9 and '-', first a letter, "
                      "last no '-')",
                      name, TUTTI_MANIFEST_NAME_MAX);
}

static int check_image(const char *image, struct tutti_err *err)
{
    static const char all[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/:@-";
    enum { IMAGE_BYTES_MAX = 512 };

    if (image[strspn(image, all)] == '\0' && strlen(image) <= IMAGE_BYTES_MAX &&
        strchr("._/:@-", image[0]) == NULL)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--image': '%.80s' (as registry.example/tutti:1.0)", image);
}

static int read_volume(const char *text, struct volume *ret, struct tutti_err *err)
{
    size_t bytes = text == NULL ? 0 : strcspn(text, ":");

    ret->mount = NULL;
    if (text == NULL)
        return 0;
    if (!is_label(text, bytes, false) || text[bytes] != ':' || text[bytes + 1] != '/' ||
        strchr(text + bytes + 1, ':') != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--volume': '%.80s' (CLAIM:/PATH, a PersistentVolumeClaim and "
                          "where it lies in the containers)",
                          text);
    for (const char *p = text + bytes + 1; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--volume': '%.80s' (a path of printable ASCII)", text);
    (void)snprintf(ret->claim, sizeof(ret->claim), "%.*s", (int)bytes, text);
    ret->mount = text + bytes + 1;
    return 0;
}

static int check_names(const struct tutti_args *args, struct tutti_err *err)
{
    int status = check_name(tutti_args_text(args, "name"), err);

    if (status == 0)
        status = check_label(args, "namespace", err);
    if (status == 0)
        status = check_label(args, "secret", err);
    if (status == 0)
        status = check_image(tutti_args_text(args, "image"), err);
    return status;
}

int tutti_command_launch_kubernetes(const struct tutti_args *args, struct tutti_sink *sink,
                                    struct tutti_err *err)
{
    const bool tfjob = tutti_args_flag(args, "tfjob");
    struct tutti_tasks_started tasks;
    struct tutti_train_words train;
    struct volume volume;
    struct tutti_kubernetes m = {.tasks = &tasks, .train = &train};
    struct tutti_train_words_ask ask = {
        .tasks = &tasks, .deadline = "600s", .restarts = tutti_args_text(args, "restarts")};
    int status = tutti_tasks_started_read(args, 0, &tasks, err);

    if (status == 0)
        status = check_names(args, err);
    if (status == 0)
        status = read_volume(tutti_args_text(args, "volume"), &volume, err);
    if (status < 0)
        return status;
    if (tfjob) {
        ask.launcher = tasks.count == 1 ? "none" : NULL; /* of one replica it sets no TF_CONFIG */
        ask.stop_code = "143";
    }
    status = tutti_train_words_read(args, &ask, &train, err);
    if (status < 0)
        return status;
    m.name = tutti_args_text(args, "name");
    m.name_space = tutti_args_text(args, "namespace");
    m.image = tutti_args_text(args, "image");
    m.secret = tutti_args_given(args, "secret") ? tutti_args_text(args, "secret") : m.name;
    if (train.open || tasks.count == 1)
        m.secret = NULL;
    m.claim = volume.mount == NULL ? NULL : volume.claim;
    m.mount = volume.mount;
    m.restarts = (uint32_t)tutti_args_number(args, "restarts");
    m.gpus = (uint32_t)tutti_args_number(args, "gpus");
    if (tfjob)
        tutti_kubernetes_print_tfjob(&m, sink->out);
    else
        tutti_kubernetes_print_job(&m, sink->out);
    return 0;
}

static const struct tutti_option options[] = {
    TUTTI_OPTIONS_TASKS("tasks that train"),
    {.name = "tfjob",
     .type = TUTTI_OPTION_FLAG,
     .help = "a TFJob of Kubeflow's training-operator (v1.9) instead of a Job and a Service"},
    {.name = "image",
     .type = TUTTI_OPTION_TEXT,
     .value = "IMAGE",
     .standard = "tutti",
     .help = "of the containers, with tutti on its PATH, and of a Job /bin/sh"},
    {.name = "name",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .standard = "tutti",
     .help = "of Job and Service, or of the TFJob; pods are called after it"},
    {.name = "namespace",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "that they are in (if not given: kubectl's)"},
    {.name = "secret",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "the Secret whose key 'secret' is TUTTI_SECRET (if not given: called as the Job)"},
    {.name = "volume",
     .type = TUTTI_OPTION_TEXT,
     .value = "CLAIM:/PATH",
     .help = "a PersistentVolumeClaim that all pods mount at PATH: for data and checkpoints"},
    {.name = "restarts",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "6",
     .min = 0,
     .max = TUTTI_MANIFEST_RESTARTS_MAX,
     .help = "failures of a pod after which all is given up; of a TFJob N times its pods, of all"},
    {.name = "gpus",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "0",
     .min = 0,
     .max = 64,
     .help = "nvidia.com/gpu of each pod; of a TFJob, of chief and workers"},
};

const struct tutti_command tutti_cli_launch_kubernetes = {
    .name = "launch kubernetes",
    .summary = "manifests that train a model in pods of Kubernetes",
    .operands = "[-- TRAIN-OPTION...]",
    .operand_max = UINT32_MAX,
    .text =
        "Prints YAML for 'kubectl apply -f -'; nothing is started here. What stands behind '--' is "
        "passed on to 'tutti train' in each pod, and checked first as that does; -B is tcp if it "
        "does not say, the strategy of servers parameter-server, and --deadline 600s, for pods "
        "come one by one.\n\n"
        "A headless Service and one indexed Job, a pod a task (chief, workers, servers, evaluator "
        "in this order): a pod makes its TF_CONFIG from JOB_COMPLETION_INDEX, and is found as "
        "NAME-INDEX.NAME, also when it is made again. A pod that fails is made again up to "
        "--restarts times, wrong usage excepted; one that was told to end and has saved, or "
        "whose node goes, as often as need be. The Job is done when its first task is (and the "
        "evaluator). Kubernetes 1.31 or later: backoffLimitPerIndex, successPolicy. "
        "Who loses a peer waits for it (train's --restarts), and all go on from the newest "
        "checkpoint together.\n\n"
        "With --tfjob one kubeflow.org/v1 TFJob, whose operator sets TF_CONFIG; --stop-code is "
        "143 there, which its policy ExitCode would restart as well.\n\n"
        "Processes on several hosts prove to each other that they know TUTTI_SECRET, which a "
        "Secret holds that is made once, by the command in the first lines; train's --open does "
        "without.",
    .examples =
        "tutti launch kubernetes --worker 2 --image registry.example/tutti:1 -- --model mlp\n"
        "tutti launch kubernetes --ps 1 --worker 2 --chief --volume nfs:/data -- --model mlp "
        "--data mnist:/data/mnist --checkpoint /data/run1\n"
        "tutti launch kubernetes --tfjob --worker 4 --name mnist --namespace lab -- --model mlp",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_launch_kubernetes,
};
