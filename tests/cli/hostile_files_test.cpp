// Files that ask for too much, are damaged, or would be lost; and an answer that finds no room.

#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scene.hpp"
#include "schema/cost_database.hpp"

using nlohmann::json;
using namespace trimtab;

namespace {

// Exit code 2, no answer, and one line that has these words.
void refuses(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
  const Outcome outcome = ::trimtab_program(arguments);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  for (const std::string& word : words) CHECK(outcome.err.find(word) != std::string::npos);
}

// The program's exit code as a shell has it, its standard output on that file and its messages in another.
int exit_code_on(const std::string& arguments, const std::string& output, const std::string& messages) {
  const int status = std::system(("'" TRIMTAB_BIN "/trimtab' " + arguments + " >" + output + " 2>" + messages).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A cost database of which a disk has changed one digit in the second of two batches.
std::string damaged_database(const Scene& scene) {
  const std::string path = scene.database("damaged.db", "one", 1);
  {
    auto database = CostDatabase::open(path, OpenMode::kReadWrite);
    REQUIRE(database.ok());
    Cost cost;
    cost.key.kind = CostKind::kKernel;
    cost.key.subject = "gemm";
    cost.statistics.add(700'000'001);
    REQUIRE(database->add_batch({"other", 1}, fingerprint_of("one"), "active", {cost}).ok());
  }
  std::string bytes = content_of(path);
  const std::size_t at = bytes.find("700000001");
  REQUIRE(at != std::string::npos);
  bytes[at + 8] = '2';
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace

TEST_CASE("a model whose global batch is beyond any training ends no verb") {
  const Scene scene;
  json model = json::parse(content_of(scene.model));
  model["global_batch"] = 2147483647;
  const std::string large = scene.scratch.file("large.json", model.dump());
  const std::vector<std::string> words{"large.json: global_batch", "between 1 and 1048576", "2147483647"};
  refuses({"plan", "check", scene.plan, "--model", large, "--cluster", scene.cluster}, words);
  for (const char* verb : {"evaluate", "search"}) {
    std::vector<std::string> arguments{verb, "--model", large, "--cluster", scene.cluster, "--costs", scene.costs};
    if (verb == std::string("evaluate")) arguments.insert(arguments.end(), {"--plan", scene.plan});
    refuses(arguments, words);
  }
}

TEST_CASE("an answer that finds no room is told, with exit code 3") {
  const Scene scene;
  const std::string messages = scene.scratch.path("messages");
  for (const std::string verb : {"plan targets", "--version", "--help"}) {
    INFO(verb);
    CHECK(exit_code_on(verb, "/dev/full", messages) == 3);
    CHECK(content_of(messages).starts_with("trimtab: standard output took not all of the answer"));
    CHECK(exit_code_on(verb, "/dev/null", messages) == 0);
    CHECK(content_of(messages).empty());
  }
  CHECK(exit_code_on("db export '" + scene.costs + "'", "/dev/full", messages) == 3);
  // Who has read enough is not told.
  CHECK(exit_code_on("db export '" + scene.costs + "' | true", "/dev/null", messages) == 0);
  CHECK(content_of(messages).empty());
}

TEST_CASE("every verb that reads a damaged cost database says so on standard error") {
  const Scene scene;
  const std::string damaged = damaged_database(scene);
  const std::vector<std::string> inputs{"--model", scene.model, "--cluster", scene.cluster, "--costs", damaged};
  std::vector<std::vector<std::string>> verbs{{"db", "show", damaged},
                                              {"db", "export", damaged},
                                              {"db", "merge", scene.scratch.path("new.db"), damaged},
                                              {"db", "diff", damaged, scene.costs},
                                              {"evaluate", "--plan", scene.plan},
                                              {"search", "--budget", "100ev"}};
  for (std::vector<std::string>& verb : verbs) {
    if (verb.front() != "db") verb.insert(verb.end(), inputs.begin(), inputs.end());
    const Outcome outcome = ::trimtab_program(verb);
    INFO(verb[0] << " " << verb[1] << ": " << outcome.err);
    CHECK(outcome.exit_code == 0);
    const std::string warning = "warning: " + damaged + " was damaged: ";
    const std::size_t at = outcome.err.find(warning);
    CHECK(at != std::string::npos);
    CHECK(outcome.err.find(" of it could not be read", at) != std::string::npos);
    CHECK(outcome.err.find("was damaged", at + warning.size()) == std::string::npos);
    CHECK(outcome.err.find("set_apart") != std::string::npos);
    CHECK(outcome.out.find("700000002") == std::string::npos);
  }
  CHECK(::trimtab_program({"db", "export", scene.costs}).err.empty());
  const Outcome into = ::trimtab_program({"db", "merge", damaged, scene.costs});
  CHECK(into.exit_code == 0);
  CHECK(into.err.starts_with("warning: " + damaged + " was damaged: "));
  CHECK(into.err.ends_with("The file as it was is " + damaged + ".damaged\n"));
}

TEST_CASE("a file without an end is refused before it fills the memory") {
  refuses({"plan", "show", "/dev/zero"}, {"/dev/zero: expected a file of at most 64"});
  refuses({"plan", "estimate", "/dev/zero"}, {"/dev/zero:1: expected a question of at most 16"});
  refuses({"plan", "estimate", "/tmp"}, {"/tmp", "cannot be read"});
}

TEST_CASE("a launch script is read with plain files that it takes in, and without what has no end") {
  const Scratch scratch;
  scratch.file("options.sh", "OPTIONS=\"--num-layers $N --hidden-size 64 --num-attention-heads 4 --seq-length 64\"\n");
  REQUIRE(::mkfifo(scratch.path("pipe.sh").c_str(), 0600) == 0);
  const std::string script = scratch.file("parted.sh",
                                          "N=3\n. ./pipe.sh\n. /dev/zero\n. `pwd`/options.sh\n"
                                          "run $OPTIONS --vocab-size 100 --max-position-embeddings 64 "
                                          "--global-batch-size 8 --micro-batch-size 1\n");
  const Outcome model = ::trimtab_program({"model", "extract", "--megatron", script});
  INFO(model.err);
  REQUIRE(model.exit_code == 0);
  CHECK(json::parse(model.out)["operators"].size() == 8);
  const Outcome plan = ::trimtab_program({"plan", "import", script, "--ranks", "1"});
  INFO(plan.err);
  CHECK(plan.exit_code == 0);
}

TEST_CASE("an output that is an input under any name is refused, and the input stays") {
  const Scene scene;
  const std::string link = scene.scratch.path("link.db");
  REQUIRE(std::system(("ln '" + scene.costs + "' '" + link + "'").c_str()) == 0);
  const std::string costs = content_of(scene.costs);
  for (const std::string& out : {scene.costs, link}) {
    refuses({"db", "export", scene.costs, "-o", out}, {"--out: " + out + " is the file", "name another"});
  }
  CHECK(content_of(scene.costs) == costs);
  const std::string plan = content_of(scene.plan);
  refuses({"plan", "export", scene.plan, "--out", scene.plan}, {"--out", "would be lost"});
  CHECK(content_of(scene.plan) == plan);
  const std::string config = scene.scratch.file("h.json", "{}");
  for (const char* flag : {"--out", "--html"}) {
    refuses({"plan", "find", "--hf", config, "--gpus", "8xH100", flag, config}, {flag, "would be lost"});
  }
  CHECK(content_of(config) == "{}");
  REQUIRE(::trimtab_program({"db", "export", scene.costs, "-o", scene.scratch.path("costs.csv")}).exit_code == 0);
  CHECK(::trimtab_program({"db", "export", scene.costs, "-o", "-"}).out == content_of(scene.scratch.path("costs.csv")));
  refuses({"db", "merge", "", scene.costs}, {"an empty name is none"});
}

TEST_CASE("an output that belongs to a database that is read is refused") {
  const Scene scene;
  for (const char* end : {"-wal", "-shm", "-journal", "-confirmed", ".first-page", ".lock"}) {
    refuses({"db", "export", scene.costs, "-o", scene.costs + end}, {"belongs to the database", "name another"});
  }
}
