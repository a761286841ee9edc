def test_ready_with_a_version(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready", "version": 2, "classes": 5}


def test_alive_but_not_ready_without_a_version(empty_client):
    assert empty_client.get("/healthz").status_code == 200
    response = empty_client.get("/readyz")

    assert (response.status_code, response.json()["code"]) == (503, "no_classes_yet")
    assert response.json()["detail"] == "no classes yet: run zstci learn DIR"
