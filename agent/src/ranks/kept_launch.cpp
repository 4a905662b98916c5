#include "ranks/kept_launch.hpp"

#include <string>

namespace trimtab::agent {

namespace {

std::string path_in(const Scratch& scratch) {
  return scratch.path() + "/kept-launch";
}

}  // namespace

Status keep_launch(const Scratch& scratch, const wire::Launch& launch) {
  return write_file(path_in(scratch), launch.SerializeAsString());
}

Result<wire::Launch> kept_launch(const Scratch& scratch, std::uint64_t number) {
  TRIMTAB_TRY(const std::string text, read_file(path_in(scratch)));
  wire::Launch launch;
  if (!launch.ParseFromString(text)) return bad_input(path_in(scratch) + " is damaged: it holds no launch");
  launch.set_launch(number);
  launch.set_fresh(false);
  if (launch.rendezvous().find("://") == std::string::npos) {
    launch.set_rendezvous(launch.rendezvous() + "-again-" + std::to_string(number));
  }
  return launch;
}

}  // namespace trimtab::agent
