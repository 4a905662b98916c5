#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "files.hpp"
#include "report/report.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using nlohmann::json;

namespace {

const std::string kFixtures = TRIMTAB_FIXTURES;

json fixture() {
  return json::parse(*read_file(kFixtures + "/report.json"));
}

std::string page_of(const json& report) {
  const auto parsed = parse_report(report.dump(), "report.json");
  if (!parsed.ok()) FAIL(parsed.error().message);
  return report_html(*parsed);
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

}  // namespace

// TRIMTAB_RENEW_GOLDEN=1 writes the page anew; look at it in a browser before committing it.
TEST_CASE("the report's page is the one that was looked at") {
  const std::string page = page_of(fixture());
  const std::string golden = kFixtures + "/report.html";
  if (std::getenv("TRIMTAB_RENEW_GOLDEN") != nullptr) REQUIRE(write_file(golden, page).ok());
  const auto expected = read_file(golden);
  REQUIRE(expected.ok());
  CHECK(page == *expected);
}

TEST_CASE("text and page say what was taken over of near hardware") {
  json report = fixture();
  CHECK_FALSE(contains(page_of(report), "aken over"));
  report["taken_over"] = {
      {"from", "0123456789abcdef"},
      {"differences", "driver 560.1 instead of 550.2"},
      {"costs", 120},
      {"probes", 20},
      {"findings",
       {{{"of", "computation"}, {"verdict", "scaled"}, {"factor", 1.08}, {"doubt", 0.03}, {"probes", 7}},
        {{"of", "memory"}, {"verdict", "confirmed"}, {"factor", 1}, {"doubt", 0.01}, {"probes", 4}},
        {{"of", "overlap"}, {"verdict", "refuted"}, {"factor", 1}, {"doubt", 0.2}, {"probes", 2}}}}};
  const std::string says =
      "120 costs of hardware 0123456789abcdef (driver 560.1 instead of 550.2), not measured here: computation 1.08 "
      "times "
      "what it was (± 6 %, 7 probes), memory as it was (± 2 %, 4 probes), overlap measured anew";
  const auto parsed = parse_report(report.dump(), "report.json");
  REQUIRE(parsed.ok());
  CHECK(contains(report_text(*parsed), "taken over        " + says + "\n"));
  CHECK(contains(page_of(report), "Taken over: " + says + "."));
}

TEST_CASE("the page asks nobody for anything") {
  const std::string page = page_of(fixture());
  for (const char* outside : {"src=", "href=", "url(", "@import", "<script", "<link", "<iframe"}) {
    INFO(outside);
    CHECK_FALSE(contains(page, outside));
  }
}

TEST_CASE("the page says what was gained, tried and checked") {
  const std::string page = page_of(fixture());
  CHECK(contains(page, "1.37× faster"));
  CHECK(contains(page, "95 % interval 1.34 to 1.40"));
  CHECK(contains(page, "out_of_memory: rank 1 held 612 MiB of 570 MiB &lt;at step 61&gt;"));
  CHECK(contains(page, "The same samples in the same order; loss within 4.77e-07 of the untuned run over 40 steps"));
  CHECK(contains(page, "Adopted plan, predicted"));
  CHECK(contains(page, "5f3a9c0e12ab77d4"));
}

TEST_CASE("the page says what was slow, what trials cost and what changed on the machine") {
  json report = fixture();
  report["overhead"] = {{"ms", 1500.0}, {"share", 0.0124}, {"allowed_share", 0.02}};
  report["trials"][0]["cost"]["overhead_ms"] = 900.0;
  report["trials"][1]["cost"]["overhead_ms"] = 600.0;
  report["trials"][0]["cost"]["switch_phases_ms"] = {{"save", 90.0}, {"move", 0.0}, {"groups", 20.5}, {"build", 50.0}};
  report["trials"][0]["break_even_steps"] = 17;
  report["trials"][0]["state"] = "adopted";
  report["drifts"] = json::array({{{"since_step", 120},
                                   {"noticed_step", 131},
                                   {"before_ms", 80.0},
                                   {"after_ms", 95.0},
                                   {"what", "node n3 link to n4 <slow>"},
                                   {"stale", "stale are 3 of 9 costs"}}});
  report["resizes"] = json::array(
      {{{"step", 300}, {"lost", "n2"}, {"devices", 6}},
       {{"step", 400}, {"lost", ""}, {"joined", "n7"}, {"devices", 8}, {"outcome", "left: it is no faster"}}});
  const std::string page = page_of(report);
  CHECK(contains(page, "What was slow"));
  CHECK(contains(page, "The largest loss was"));
  CHECK(contains(page, "The longest change of plan took " + format_ms(214.5) +
                           ", of which the snapshot 90.0 ms, communicators 20.5 ms"));
  CHECK(contains(page, "building modules 50.0 ms"));
  CHECK(
      contains(page, "trials and comparisons cost 1500 ms, 1.2 % of the time that the job takes (2.0 % are allowed)"));
  CHECK(contains(page,
                 "The change to trial " + report["trials"][0]["id"].dump() + "&#39;s plan has paid after 17 steps"));
  CHECK(contains(page, "From step 120 on a step took 95.0 ms instead of 80.0 ms"));
  CHECK(contains(page, "node n3 link to n4 &lt;slow&gt;"));
  CHECK(contains(page, "; stale are 3 of 9 costs."));
  CHECK_FALSE(contains(page, "Tuned again"));
  report["retuned"] = {{"ratio", 1.58}, {"low", 1.37}, {"high", 1.82}};
  const std::string again = page_of(report);
  CHECK(contains(again, "Tuned again: 1.58× faster"));
  CHECK(contains(again, "What was adopted since is 1.58× (95 % interval 1.37 to 1.82) as fast as the plan before"));
  report["retuned"]["low"] = 0.99;
  CHECK_FALSE(contains(page_of(report), "Tuned again"));
  CHECK(contains(page, "without n2, on 6 devices."));
  CHECK(contains(page, "with n7, on 8 devices: left: it is no faster."));
  CHECK_FALSE(contains(page_of(fixture()), "What changed on the machine"));
  report["drifts"][0]["during"] = "trial 3";
  CHECK(contains(page_of(report), "noticed at step 131 in trial 3: node n3"));
  report["drifts"][0]["after_ms"] = 80.0;
  report["drifts"][0]["what"] = "recovered: a link";
  CHECK(contains(page_of(report),
                 "At step 131 a look at the hardware found, while steps took what they took, recovered: a link"));
  report["drifts"][0]["before_ms"] = "fast";
  CHECK_FALSE(parse_report(report.dump(), "report.json").ok());
}

TEST_CASE("trials on either side of a change of the machine are told apart") {
  json report = fixture();
  report["compared"] = false;
  REQUIRE(report["trials"].size() > 1);
  const auto first_id = report["trials"][0]["id"].get<int>();
  report["drifts"] =
      json::array({{{"since_step", 120}, {"noticed_step", 131}, {"before_ms", 80.0}, {"after_ms", 95.0}}});
  const std::string words = "From step 120 on a step took 95.0 ms instead of 80.0 ms";
  const auto text_of = [](const json& document) { return report_text(*parse_report(document.dump(), "report.json")); };
  CHECK_FALSE(contains(text_of(report), words));  // nothing was tried since
  CHECK_FALSE(contains(page_of(report), "the machine changed"));

  report["drifts"][0]["trials_before"] = first_id;
  const std::string text = text_of(report);
  CHECK(contains(text, "  " + words + ":\n"));
  CHECK(contains(text, "before the machine changed\n"));
  CHECK(text.find("\n      " + std::to_string(first_id)) < text.find(words));
  CHECK(text.find("\n      " + report["trials"][1]["id"].dump()) > text.find(words));
  const std::string page = page_of(report);
  CHECK(contains(page, "<td colspan=\"8\" class=\"soft\">" + words + ".</td>"));
  CHECK(contains(page, ">the machine changed</text>"));
  CHECK(contains(page, "before the machine changed"));

  report["drifts"] = json::array();
  report["resizes"] = json::array({{{"step", 300}, {"lost", "n2"}, {"devices", 6}, {"trials_before", first_id}}});
  CHECK(contains(text_of(report), "  At step 300 the job went on without n2, on 6 devices:\n"));
  report["trials"][1]["id"] = "another";
  CHECK_FALSE(contains(text_of(report), "without n2"));
}

TEST_CASE("markup in any text of a report stays text") {
  json report = fixture();
  const std::string evil = "<script>alert('x')</script>\"";
  report["job"] = report["fingerprint"] = report["conclusion"] = report["mode"] = evil;
  report["trials"][0]["reason"] = report["trials"][0]["state"] = report["trials"][0]["message"] = evil;
  report["search"]["explanation"] = report["loss"]["note"] = evil;
  report["profiled"][evil] = evil;
  report["trials"][0]["id"] = evil;
  const std::string page = page_of(report);
  CHECK_FALSE(contains(page, "<script"));
  CHECK(contains(page, "&lt;script&gt;"));
}

TEST_CASE("a report without its optional fields is still a page") {
  const std::string page = page_of({{"schema", "trimtab.report/1"}});
  CHECK(contains(page, "<!doctype html>"));
  CHECK(contains(page, "The initial plan stays"));
  const json report = fixture();
  for (const auto& [field, value] : report.items()) {
    if (field == "schema") continue;
    INFO(field);
    json less = report;
    less.erase(field);
    CHECK(contains(page_of(less), "</html>"));
    less[field] = nullptr;
    CHECK(contains(page_of(less), "</html>"));
  }
}

TEST_CASE("a trial's stages show what was measured of each term beside what was predicted") {
  json report = fixture();
  CHECK_FALSE(contains(page_of(report), "Where a step of each stage went"));
  const json told = {
      {"computation_ms", 41}, {"collectives_ms", 1}, {"gradients_ms", 12}, {"transfers_ms", 23}, {"idle_ms", 3}};
  const json predicted = {
      {"computation_ms", 40}, {"collectives_ms", 2}, {"gradients_ms", 11}, {"transfers_ms", 17}, {"idle_ms", 4}};
  report["trials"][0]["stages"] =
      json::array({{{"predicted", predicted}, {"measured", told}}, {{"predicted", predicted}, {"measured", nullptr}}});
  const std::string page = page_of(report);
  CHECK(contains(page, "Where a step of each stage went"));
  CHECK(contains(page, ">23.0 ms (17.0 ms)<"));
  CHECK(contains(page, ">– (17.0 ms)<"));
  CHECK_FALSE(contains(page, "launch-bound"));
  report["trials"][0]["stages"][0]["measured"]["bubble_ms"] = 19.5;
  report["trials"][0]["stages"][0]["measured"]["launch_bound_ms"] = 0;
  const std::string parts = page_of(report);
  CHECK(contains(parts, ">launch-bound<"));
  CHECK(contains(parts, ">19.5 ms<"));
  CHECK(contains(parts, ">0.00 ms<"));
  report["trials"][0]["stages"][0]["measured"] = nullptr;  // nobody told
  CHECK_FALSE(contains(page_of(report), "Where a step of each stage went"));
  report["trials"][0]["stages"][0]["measured"] = {{"idle_ms", "x"}};
  CHECK_FALSE(parse_report(report.dump(), "report.json").ok());
}

TEST_CASE("a plan that was not tried is named with the reason, on the page and in the terminal") {
  json report = fixture();
  report["not_tried"] = {{{"plan", report["trials"][0]["plan"]}, {"predicted_ms", 658.2}, {"reason", "too like <b>"}}};
  const auto parsed = parse_report(report.dump(), "report.json");
  REQUIRE(parsed.ok());
  CHECK(contains(report_text(*parsed), "  not tried: microbatch "));
  CHECK(contains(report_text(*parsed), ": predicted 658 ms, too like <b>\n"));
  CHECK(contains(page_of(report), ": predicted 658 ms, too like &lt;b&gt;</li>"));
  for (int i = 0; i < 4; ++i) report["not_tried"].push_back(report["not_tried"][0]);
  const auto many = parse_report(report.dump(), "report.json");
  REQUIRE(many.ok());
  CHECK(contains(report_text(*many), "  not tried: 2 more, see the report\n"));
}

TEST_CASE("a gain that the interval does not exclude from chance is not claimed") {
  json report = fixture();
  report["speedup"] = {{"ratio", 1.02}, {"low", 0.99}, {"high", 1.05}};
  CHECK_FALSE(contains(page_of(report), "× faster"));
  CHECK(contains(page_of(report), "No certain gain"));
}

TEST_CASE("plans that were not measured in turn claim no speed-up") {
  json report = fixture();
  report["compared"] = false;
  CHECK_FALSE(contains(page_of(report), "× faster"));
}

TEST_CASE("what trials have measured is told where nothing was compared at the end") {
  json report = fixture();
  report["compared"] = false;
  report["gain"] = {{"ratio", 1.63}, {"low", 1.12}, {"high", 2.37}, {"by", "trials"}, {"trials", {1, 3}}};
  const auto text = [&report] { return report_text(*parse_report(report.dump(), "report.json")); };
  CHECK(contains(text(),
                 "speed-up          1.63× (95 % interval 1.12 to 2.37), as trials 1 and 3 measured it in turn\n"));
  CHECK(contains(page_of(report), ">1.63× faster"));
  CHECK(contains(page_of(report), "There was no comparison at the end."));
  report["gain"] = {{"ratio", 1.05}, {"low", 0.97}, {"high", 1.14}, {"by", "trial not kept"}, {"trials", {2}}};
  CHECK(contains(text(), "speed-up          none is kept; the best was 1.05× (95 % interval 0.97 to 1.14) of trial 2"));
  CHECK_FALSE(contains(page_of(report), "× faster"));
}

TEST_CASE("losses that were not compared are not called the same") {
  json report = fixture();
  report["loss"] = {{"steps", 0}, {"max_abs_difference_to_untuned_run", 0}, {"same_samples", false}, {"note", ""}};
  const std::string page = page_of(report);
  CHECK(contains(page, "Not compared with an untuned run"));
  CHECK_FALSE(contains(page, "ifferent samples"));
}

TEST_CASE("different samples are said and marked") {
  json report = fixture();
  report["loss"]["same_samples"] = false;
  CHECK(contains(page_of(report), "<p class=\"bad\">Different samples"));
}

TEST_CASE("a failed job's page says why first") {
  json report = fixture();
  report["failure"] = "rank 1 ended with signal 9";
  CHECK(contains(page_of(report), "The job failed"));
  CHECK(contains(page_of(report), "rank 1 ended with signal 9"));
}

TEST_CASE("a field of a wrong type is refused by its path") {
  const auto refused = [](const char* pointer, const json& value) {
    json report = fixture();
    report[json::json_pointer(pointer)] = value;
    const auto parsed = parse_report(report.dump(), "report.json");
    REQUIRE_FALSE(parsed.ok());
    return parsed.error().message;
  };
  CHECK(contains(refused("/speedup/ratio", "fast"), "$.speedup.ratio: expected a number, but found string"));
  CHECK(contains(refused("/trials/1/state", 3), "$.trials[1].state"));
  CHECK(contains(refused("/trials", "none"), "$.trials: expected an array"));
  CHECK(contains(refused("/timeline/initial/0/kind", "nap"), "unknown kind 'nap'"));
  CHECK(contains(refused("/timeline/initial/0/stage", 1e9), "$.timeline.initial[0].stage"));
  CHECK(contains(refused("/not_tried", json::array({1})), "$.not_tried[0]: expected an object"));
  CHECK(contains(refused("/schema", "trimtab.report/2"), "expected 'trimtab.report/1'"));
  CHECK_FALSE(parse_report("[]", "x").ok());
  CHECK_FALSE(parse_report("{", "x").ok());
}

TEST_CASE("numbers beyond reason do not break the drawings") {
  json report = fixture();
  report["initial"]["measured_ms"] = {{"mean", 1e300}, {"low", -1e300}, {"high", 1e300}, {"steps", 1}};
  report["adopted"]["predicted_ms"] = 1e-300;
  report["speedup"] = {{"ratio", 1e9}, {"low", 0}, {"high", 1e9}};
  const std::string page = page_of(report);
  CHECK_FALSE(contains(page, "=\"nan"));
  CHECK_FALSE(contains(page, "=\"unknown"));
  CHECK(contains(page, "</html>"));
}

TEST_CASE("the terminal's summary has the same verdicts") {
  const auto parsed = parse_report(fixture().dump(), "report.json");
  const std::string text = report_text(*parsed);
  CHECK(contains(text, "speed-up          1.37× (95 % interval 1.34 to 1.40)"));
  CHECK(contains(text, "prediction error  8.3 % before calibration, 2.1 % after"));
  CHECK(contains(text, "out_of_memory"));
}

TEST_CASE("a last tuning that finds nothing hides no earlier gain") {
  json report = fixture();
  report["compared"] = false;
  report.erase("retuned");
  const auto drift = [](int since, double before, double after, int trials) {
    return json{
        {"since_step", since}, {"noticed_step", since + 20}, {"before_ms", before}, {"after_ms", after}, {"what", ""},
        {"stale", ""},         {"trials_before", trials}};
  };
  report["drifts"] = {drift(474, 1000, 1900, 5), drift(792, 1100, 1300, 10)};
  CHECK(contains(page_of(report), "No speed-up was measured"));
  report["drifts"][0]["gained_before"] = {{"ratio", 1.33}, {"low", 1.2}, {"high", 1.5}};
  CHECK(contains(page_of(report), ">1.33× faster"));
  report["drifts"][1]["gained_before"] = {{"ratio", 1.45}, {"low", 1.3}, {"high", 1.6}};
  const std::string page = page_of(report);
  CHECK(contains(page, ">Tuned again: 1.45× faster"));
  CHECK(contains(page,
                 "The first tuning found a plan 1.33× (95 % interval 1.20 to 1.50) as fast as the initial one. "
                 "From step 474 on a step took 1900 ms instead of 1000 ms: what was adopted then is 1.45× (95 % "
                 "interval 1.30 to 1.60) as fast as the plan before. From step 792 on a step took 1300 ms "
                 "instead of 1100 ms: no faster plan was adopted then."));
  const auto parsed = parse_report(report.dump(), "report.json");
  REQUIRE(parsed.ok());
  CHECK(contains(report_text(*parsed), "\nuntil step 474    1.33× (95 % interval 1.20 to 1.50) as fast as"));
}

TEST_CASE("every plan of a report is told in its framework's words first, for a terminal and on the page") {
  json report = fixture();
  const auto tell = [](json& plan, const std::string& words) { plan["in_words"] = words; };
  tell(report["initial"]["plan"], "batch_size=1");
  tell(report["adopted"]["plan"], "batch_size=<16>");
  tell(report["trials"][0]["plan"], "batch_size=3");
  report["recommendation"] = report["adopted"]["plan"];
  tell(report["recommendation"], "batch_size=4");
  const auto parsed = parse_report(report.dump(), "report.json");
  REQUIRE(parsed.ok());
  const std::string text = report_text(*parsed);
  for (const char* one : {"batch_size=1 (microbatch ", "batch_size=<16> (microbatch ", "batch_size=3 (microbatch ",
                          "recommended plan  batch_size=4 (microbatch "}) {
    INFO(text << one);
    CHECK(contains(text, one));
  }
  const std::string page = report_html(*parsed);
  CHECK(contains(page, "<p><code>batch_size=1</code></p>"));
  CHECK(contains(page, "<p><code>batch_size=&lt;16&gt;</code></p>"));
  CHECK(contains(page, "batch_size=3 (microbatch "));
}
