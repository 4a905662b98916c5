// All keys of job.toml, its reader, and the files that it names.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/url.hpp"
#include "documents/job_names.hpp"
#include "documents/json_document.hpp"
#include "schema/documents/document_text.hpp"
#include "schema/model.hpp"
#include "schema/settings/job_settings.hpp"

namespace trimtab {

namespace {

using Row = Setting<ParsedJob>;

constexpr const char* kKnobHelp[] = {
    "stages one after the other",
    "stages of different numbers of operators",
    "samples of a microbatch",
    "replicas of a stage",
    "activations that are computed again",
    "the first microbatches of a step forwarded in halves",
    "several ranks share each operator. True where the `target`, not the trainer, honours it",
    "replicas share optimizer states, gradients or parameters. True likewise",
    "with tensor_parallel: a microbatch in two parts, one computing beside the other's sums",
    "H3T's, of whole layers, with the optimizer on the host",
    "operators of one stage split in different ways",
    "with sharded: states shared by some of the replicas, and copied by the others (HSDP)",
    "beside tensor_parallel: its ranks share the sequence of what they do not split",
    "several ranks share each sample's sequence",
    "several stages on the same devices, in the interleaved 1F1B schedule"};
static_assert(std::size(kKnobHelp) == std::size(kKnobs));

// What is no path stays as it is: whoever would copy it says why that cannot be.
SettingKind<std::string> checkpoint_setting() {
  SettingKind<std::string> kind = path_setting();
  kind.read = [path = kind.read](const GivenSetting& given) -> Result<std::string> {
    if (is_url(given.text)) return given.text;
    return path(given);
  };
  return kind;
}

template <typename Member>
auto of(Member member) {
  return within(&ParsedJob::job, member);
}

template <typename Outer, typename Inner>
auto of(Outer outer, Inner inner) {
  return within(of(outer), inner);
}

SettingKind<Nanoseconds> seconds() {
  return seconds_setting("a positive number of seconds, at most 1e7",
                         [](double given) { return given >= 1e-9 && given <= kMaxDeadlineSeconds; });
}

bool is_look_time(double seconds) {
  return seconds >= 0 && seconds <= kMaxDeadlineSeconds && is_look_period(Nanoseconds(std::llround(seconds * 1e9)));
}

bool is_pause_time(double seconds) {
  return seconds >= 0 && seconds <= kMaxDeadlineSeconds && is_pause(Nanoseconds(std::llround(seconds * 1e9)));
}

bool is_lasting_time(double seconds) {
  return seconds >= 0 && seconds <= kMaxDeadlineSeconds && is_lasting(Nanoseconds(std::llround(seconds * 1e9)));
}

// A table of any names.
Row free_texts(const std::string& name, std::map<std::string, std::string> Job::*texts, const std::string& help) {
  return {{name + ".*", {GivenSetting::Type::kText}, "TEXT", "a text in quotes", "none", help},
          [texts](ParsedJob& parsed, const GivenSetting& given) {
            (parsed.job.*texts)[given.key] = given.text;
            return Status();
          }};
}

OwnKnob* own_knob_of(Job& job, const std::string& name) {
  const auto found = std::ranges::find_if(
      job.own_knobs, [&](const OwnKnob& one) { return one.name == name || one.name == "env:" + name; });
  return found == job.own_knobs.end() ? nullptr : &*found;
}

// What stands in [knobs.own_class] and [knobs.own_when] is of a knob of [knobs.own], which TOML's reader may meet
// later.
Result<OwnKnob*> named_own_knob(Job& job, const GivenSetting& given) {
  OwnKnob* const knob = own_knob_of(job, given.key);
  if (knob == nullptr) return bad_input("expected the name of a knob of [knobs.own], found '" + given.key + "'");
  return knob;
}

std::vector<Row> own_knobs() {
  using Type = GivenSetting::Type;
  return {
      {{"knobs.own.*",
        {Type::kList, Type::kOther},
        "ARRAY",
        "an array of values, such as [1, 2, 4]",
        "none",
        "a knob of the job's own and the values that may be tried: an environment variable `NAME`, `\"arg:--name\"`, "
        "`\"flag:--name\"`, or a name of yours and texts that each list settings, `\"arg:--batch=8 "
        "arg:--accumulate=2\"`"},
       [](ParsedJob& parsed, const GivenSetting& given) -> Status {
         if (own_knob_of(parsed.job, given.key) != nullptr) return bad_input("is there twice");
         TRIMTAB_TRY(OwnKnob knob, own_knob(given.key, given.list));
         parsed.job.own_knobs.push_back(std::move(knob));
         return {};
       }},
      {{"knobs.own_class.*",
        {Type::kText},
        "WORD",
        "\"exact\", \"rounding\" or \"statistical\"",
        "rounding",
        "what that knob may do to what is learnt"},
       [](ParsedJob& parsed, const GivenSetting& given) -> Status {
         TRIMTAB_TRY(OwnKnob* const knob, named_own_knob(parsed.job, given));
         if (std::ranges::find(kChangeClasses, given.text) == std::end(kChangeClasses))
           return unsuitable("\"exact\", \"rounding\" or \"statistical\"", given);
         knob->change_class = given.text;
         return {};
       }},
      {{"knobs.own_when.*",
        {Type::kList},
        "ARRAY",
        "an array of settings, such as [\"arg:--workers=2\"]",
        "none",
        "where that knob counts: under these settings of other knobs of its owner's. Of one key any of the values "
        "suits"},
       [](ParsedJob& parsed, const GivenSetting& given) -> Status {
         TRIMTAB_TRY(OwnKnob* const knob, named_own_knob(parsed.job, given));
         return add_condition(*knob, given.list);
       }}};
}

std::vector<Row> top() {
  constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();
  return {
      // Read before all else: the keys of another version may mean something else.
      {{"schema",
        {GivenSetting::Type::kText},
        "WORD",
        "\"" + std::string(kJobSchema) + "\"",
        "none: needed",
        "the version of this format"},
       [](ParsedJob&, const GivenSetting&) { return Status(); }},
      {"name", text_setting("NAME", kJobNameRule, is_job_name), of(&Job::name), "the job's name", "none: needed"},
      {"mode", choice_setting(kJobModes), of(&Job::mode), "what the coordinator may do"},
      {"delivery", choice_setting(kDeliveries), of(&Job::delivery),
       "whether the job changes its plan while it runs, or is started anew"},
      {"world_size", integer_setting(1, kMaxWorldSize), of(&Job::world_size), "how many ranks"},
      {"memory_limit", size_setting(1), of(&Job::memory_limit),
       "what a rank may take of its device, enforced. The device's own where that is less", "the device's own"},
      {"steps", integer_setting(0, kMany), of(&Job::steps), "steps that the job is going to train"},
      {"elastic", flag_setting(), of(&Job::elastic),
       "goes on with fewer ranks when a node is lost for good, and with more when one joins"},
      {"share_devices", flag_setting(), of(&Job::share_devices), "runs on devices that other jobs have, too"},
      {"near_costs", flag_setting(), of(&Job::near_costs),
       "costs of near hardware, such as another driver's, are taken over where a few that are measured confirm them"},
      {"allow_restarts", flag_setting(), of(&Job::allow_restarts),
       "with delivery \"restart\": the job may be stopped for trials, just after a checkpoint that it has written"},
      {"target", text_setting("NAME"), of(&Job::target), "the framework that runs the plans",
       "none: the job reads plan.json"},
      {"strategy", text_setting("NAME"), of(&Job::strategy), "what searches its plans", "unified"},
      {"checkpoint", checkpoint_setting(), of(&Job::checkpoint),
       "where the job saves and resumes. Needed to restart it. A URL, such as s3://..., cannot be copied for trials"},
      {"walltime_s", seconds(), of(&Job::walltime),
       "from the job's begin. Trials that would end after it are not begun", "none: no end"},
      {"hang_s", seconds(), of(&Job::hang), "ranks that are silent for longer outside of trials count as hung"},
      {"class", word_setting(kChangeClasses), of(&Job::change_class),
       "the most that a change of plan may do to what is learnt"},
      {"initial_plan", path_setting(), &ParsedJob::initial_plan_path, "the plan to begin with",
       "what the target runs; without one an even pipeline, full recompute, microbatch 1"},
      {"model", path_setting(), &ParsedJob::model_path, "model.json, instead of commands.describe"},
      {"working_directory", path_setting(), of(&Job::working_directory), "where commands are run", "the file's own"}};
}

std::vector<Row> rest() {
  return {
      {"trials.deadline_s", seconds(), of(&Job::trials, &TrialSettings::deadline),
       "for each part of a change of plan, and for the ranks' silence in a trial"},
      {"trials.look_every_s", seconds_setting(kLookRule, is_look_time), of(&Job::trials, &TrialSettings::look_every),
       "how often the hardware is looked at while the job trains. 0 = never"},
      {"trials.lasting_s", seconds_setting(kLastingRule, is_lasting_time), of(&Job::trials, &TrialSettings::lasting),
       "for how long at least steps must have changed, so that the machine is taken to have. 0 = some twenty steps"},
      {"trials.measure_again_s", seconds_setting(kPauseRule, is_pause_time),
       of(&Job::trials, &TrialSettings::measure_again),
       "for how long at most a live job stands still to measure again what a change of the machine has made doubtful. "
       "0 "
       "= never"},
      {"trials.minimum_gain", number_setting("SHARE", kGainRule, is_gain),
       of(&Job::trials, &TrialSettings::minimum_gain),
       "of a step's time: what a plan must promise, at best, to be tried"},
      {"trials.overhead", number_setting("SHARE", kOverheadRule, is_overhead),
       of(&Job::trials, &TrialSettings::overhead), "of the job's time: what tuning may cost"},
      {"trials.prepare", flag_setting(), of(&Job::trials, &TrialSettings::prepare),
       "with delivery \"restart\": the next launch's processes import what they need while the one before it trains"},
      {"trials.after", choice_setting(kAfterTuning), of(&Job::trials, &TrialSettings::stop_after),
       "what becomes of the job once it is tuned"},
      {"crashes.limit", integer_setting(0, kMaxCrashes), of(&Job::crashes, &CrashSettings::limit),
       "a plan that crashes more often is given up"},
      {"crashes.within_s", seconds(), of(&Job::crashes, &CrashSettings::within),
       "a crash counts until so much time has passed"},
      {"crashes.within_steps", integer_setting(0, kMaxCrashSteps), of(&Job::crashes, &CrashSettings::within_steps),
       "and until so many steps have been trained"}};
}

std::vector<Row> tables() {
  std::vector<Row> rows;
  for (const CommandName& one : kCommands) {
    rows.push_back({"commands." + std::string(one.name), arguments_setting(), of(one.arguments), one.help});
  }
  rows.push_back(free_texts("environment", &Job::environment, "added to the environment of each command"));
  rows.push_back(free_texts("software", &Job::software, "what the job runs on, part of the fingerprint of its costs"));
  for (std::size_t i = 0; i < std::size(kKnobs); ++i) {
    rows.push_back(
        {"knobs." + std::string(kKnobs[i].name), flag_setting(), of(&Job::knobs, kKnobs[i].knob), kKnobHelp[i]});
  }
  for (const TrialCount& one : kTrialCounts) {
    rows.push_back({"trials." + std::string(one.name), integer_setting(one.low, 1'000'000), of(&Job::trials, one.count),
                    one.help});
  }
  return rows;
}

const GivenSetting* find(const std::vector<GivenSetting>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &GivenSetting::name);
  return found == all.end() ? nullptr : &*found;
}

Status check_schema(const std::vector<GivenSetting>& all, std::string_view source) {
  const std::string expected = "schema: expected \"" + std::string(kJobSchema) + "\", ";
  const GivenSetting* schema = find(all, "schema");
  if (schema == nullptr) return bad_input(std::string(source) + ": " + expected + "found nothing");
  if (schema->type == GivenSetting::Type::kText && schema->text == kJobSchema) return {};
  return bad_input(schema->place + ": " + expected + "the version that this release reads, found " + schema->found);
}

bool runs_reference_trainer(const Job& job) {
  return std::ranges::any_of(job.train, [](const std::string& word) {
    return word == "trainer/train.py" || word.ends_with("/trainer/train.py");
  });
}

// Without a target plans may have every switch, and this trainer's ranks refuse most of them.
bool refuses_own_switches(const Job& job) {
  return job.knobs.memory_switches && job.target.empty() && runs_reference_trainer(job);
}

// The target may stand anywhere in the file, so this comes last.
void settle_knobs(const std::vector<GivenSetting>& all, Job& job) {
  if (!says_what_it_honours(job.target)) return;
  for (const auto& [name, knob] : kTargetKnobs) {
    if (find(all, "knobs." + std::string(name)) == nullptr) job.knobs.*knob = true;
  }
}

// What only the whole file can tell.
Status check_complete(const ParsedJob& parsed, std::string_view source) {
  const std::string prefix = std::string(source) + ": ";
  if (parsed.job.name.empty()) return bad_input(prefix + "name: expected " + kJobNameRule + ", found nothing");
  if (parsed.job.train.empty()) {
    return bad_input(prefix + "commands.train: expected the command that starts a rank, found nothing");
  }
  const bool needs_model = parsed.job.mode != JobMode::kObserve && parsed.job.own_knobs.empty();
  if (needs_model && parsed.job.describe.empty() && parsed.model_path.empty()) {
    return bad_input(prefix + "commands.describe: expected the command that prints model.json, found nothing; " +
                     "or name a file by the key \"model\", or try " + "knobs of your own alone ([knobs.own])");
  }
  if (refuses_own_switches(parsed.job)) {
    return bad_input(prefix + "knobs.memory_switches: expected false, found true: the ranks of commands.train, the " +
                     "reference trainer, refuse plans with most of these switches; leave the knob out, or set " +
                     "target = \"trainer\", whose plans have none that it refuses");
  }
  return {};
}

Result<std::string> read_file(const std::string& path, const std::string& what) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return bad_input(path + " is a directory; " + what + " is a file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 65536> part{};
  while (file && text.size() <= kMaxDocumentBytes) {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    return bad_input("cannot read " + what + " " + path + ": " + std::strerror(errno != 0 ? errno : EIO));
  }
  if (text.size() > kMaxDocumentBytes) {
    return bad_input(path + " has more than " + std::to_string(kMaxDocumentBytes) + " bytes: this is not " + what);
  }
  return text;
}

}  // namespace

const SettingTable<ParsedJob>& job_settings() {
  static const SettingTable<ParsedJob> kTable(SettingSources::kFile, {top(), tables(), own_knobs(), rest()});
  return kTable;
}

Result<ParsedJob> parse_job_toml(std::string_view toml, std::string_view source, const std::string& directory) {
  TRIMTAB_TRY(const std::vector<GivenSetting> all, read_toml(toml, source, directory));
  TRIMTAB_TRY_STATUS(check_schema(all, source));
  ParsedJob parsed;
  TRIMTAB_TRY(parsed.job.working_directory, absolute_path(".", directory));
  // Own knobs before what is said about them, wherever in the file each stands.
  const auto is_about_own = [](const GivenSetting& given) { return given.name.starts_with("knobs.own_"); };
  for (const bool about_own : {false, true}) {
    for (const GivenSetting& given : all) {
      if (is_about_own(given) == about_own) TRIMTAB_TRY_STATUS(job_settings().set(parsed, given));
    }
  }
  settle_knobs(all, parsed.job);
  TRIMTAB_TRY_STATUS(check_complete(parsed, source));
  return parsed;
}

Result<Job> load_job(const std::string& path) {
  TRIMTAB_TRY(const std::string toml, read_file(path, "the job file"));
  TRIMTAB_TRY(ParsedJob parsed, parse_job_toml(toml, path, std::filesystem::path(path).parent_path().string()));
  if (!parsed.initial_plan_path.empty()) {
    TRIMTAB_TRY(parsed.job.initial_plan_json, read_file(parsed.initial_plan_path, "the initial plan"));
    TRIMTAB_TRY(const Plan plan, DocumentText<Plan>(parsed.job.initial_plan_json, parsed.initial_plan_path).read());
  }
  if (!parsed.model_path.empty()) {
    TRIMTAB_TRY(parsed.job.model_json, read_file(parsed.model_path, "the model"));
    TRIMTAB_TRY(const Model model, parse_model(parsed.job.model_json, parsed.model_path));
  }
  return std::move(parsed.job);
}

}  // namespace trimtab
