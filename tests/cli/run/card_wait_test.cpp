#include <catch2/catch.hpp>

#include <unistd.h>

#include "run/card_files.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using std::chrono::milliseconds;

namespace {

CardLook of_steps(std::int64_t steps) {
  CardLook look;
  look.card = api::Card{};
  look.card->steps = steps;
  return look;
}

}  // namespace

TEST_CASE("a card is taken once no more steps come in") {
  CardWait wait(Nanoseconds(0));
  CHECK_FALSE(wait.take(of_steps(10), milliseconds(0)));
  CHECK_FALSE(wait.take(of_steps(12), milliseconds(700)));
  CHECK_FALSE(wait.take(of_steps(12), milliseconds(1400)));
  CHECK(wait.take(of_steps(12), milliseconds(1500)));
  CHECK(wait.last().card->steps == 12);
}

TEST_CASE("a card is waited for at most five seconds, and not so long where no rank has told anything") {
  CardWait busy(Nanoseconds(0));
  for (int i = 1; i < 10; ++i) CHECK_FALSE(busy.take(of_steps(i), milliseconds(500 * i)));
  CHECK(busy.take(of_steps(99), milliseconds(5000)));
  CardWait silent(Nanoseconds(0));
  CHECK_FALSE(silent.take({}, milliseconds(1000)));
  CHECK(silent.take({}, milliseconds(2000)));
}

TEST_CASE("without a card it is said what was looked for") {
  CHECK(no_card_text(of_steps(0), "train").find("no training step of train was seen") != std::string::npos);
  CardLook unknown;
  unknown.problem = "the coordinator refused: no such job";
  const std::string text = no_card_text(unknown, "train");
  CHECK(text.find("no such job") != std::string::npos);
  CHECK(text.find("torch's optimizers") != std::string::npos);
}

TEST_CASE("a directory for the card is made, and one where none can be is an error") {
  std::string path = "/tmp/trimtab-test-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  const std::string inner = path + "/trimtab-out/train";
  REQUIRE(check_card_directory(inner).ok());
  remove_empty_directory(inner);
  CHECK(access((path + "/trimtab-out").c_str(), F_OK) != 0);
  CHECK_FALSE(check_card_directory("/proc/trimtab-out").ok());
  rmdir(path.c_str());
}
