"""A user's own simulated GPU: an H200 with other sensors."""

from dataclasses import asdict


def write_profile(path, sensors):
    """Write the profile of an H200 with `sensors` and return its path."""
    lines = ['base = "h200"']
    for sensor in sensors:
        lines += ["[[sensors]]", f'source = "{sensor.source}"']
        lines += [f"{key} = {value}" for key, value in asdict(sensor).items() if key != "source"]
    path.write_text("\n".join(lines))
    return path
